"""The file of a search for many tasks: what it works on, and what it has spent."""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path

import msgspec

from maxkernel.errors import UsageError
from maxkernel.search.settings import SearchSettings
from maxkernel.types import Budget, Task

FILE = "many.json"
VERSION = 1


class Slice(msgspec.Struct, frozen=True):
    """One turn of one task, as it was reported."""

    task: str
    spent: int
    """Evaluations of the task so far."""
    best: float | None
    """Best accepted seconds so far."""
    over: bool
    """Nothing is left to try for it."""


class Opened(msgspec.Struct, frozen=True):
    """One session; `end` is missing while it goes on, and when it was killed."""

    start: float
    """Seconds since the epoch."""
    end: float | None = None


class ManyRecord(msgspec.Struct, frozen=True):
    """Replaced as a whole after every slice; the runs of the tasks hold everything else."""

    target: str
    budget: Budget
    """Of all tasks together."""
    settings: SearchSettings
    tasks: tuple[Task, ...]
    allow_weak: bool
    use_memory: bool
    runs: dict[str, str] = {}
    """Name of each task's run, which lies beside this file's folder."""
    problems: dict[str, str] = {}
    """Why a task cannot be searched."""
    slices: tuple[Slice, ...] = ()
    sessions: tuple[Opened, ...] = ()
    version: int = VERSION

    @property
    def seconds(self) -> float:
        """Seconds of all sessions that have an end."""
        return sum(s.end - s.start for s in self.sessions if s.end is not None)


def new_folder(runs: Path, target: str) -> Path:
    """A new folder for a record."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    folder = runs / f"many-{target}-{stamp}-{secrets.token_hex(2)}"
    folder.mkdir(parents=True)
    return folder


def save(folder: Path, record: ManyRecord) -> None:
    """Replaces the record at once: a kill leaves the old one or the new one."""
    fresh = folder / f"{FILE}.new"
    with fresh.open("wb") as file:
        file.write(msgspec.json.encode(record))
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(folder / FILE)


def load(folder: Path) -> ManyRecord:
    """Raises UsageError for a file that is missing or not a record."""
    path = folder / FILE
    try:
        record = msgspec.json.decode(path.read_bytes(), type=ManyRecord)
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(f"{path} is not the file of a search for many tasks: {error}") from error
    if record.version != VERSION:
        raise UsageError(
            f"{path} has format {record.version}; this maxkernel reads {VERSION}",
            "go on with the maxkernel that began it",
        )
    return record


def find_many(root: Path, name: str) -> Path:
    """The folder of a record given by name, unique start of it, `last`, or path."""
    if (Path(name) / FILE).is_file():
        return Path(name)
    folders = sorted(path.parent for path in root.glob(f"*/{FILE}"))
    if name == "last" and folders:
        return max(folders, key=lambda folder: (folder / FILE).stat().st_mtime)
    matches = [f for f in folders if f.name.startswith(name)]
    if len(matches) == 1:
        return matches[0]
    known = ", ".join(f.name for f in (matches or folders)[-5:]) or "none yet"
    reason = "is the start of several" if matches else "is none"
    raise UsageError(
        f"{name!r} {reason} of the searches for many tasks in {root}: {known}",
        "`maxkernel search-many --resume last` goes on with the latest",
    )
