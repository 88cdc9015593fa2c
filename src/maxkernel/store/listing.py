"""Finds runs in the runs folder."""

from __future__ import annotations

from pathlib import Path

import msgspec

from maxkernel.errors import UsageError
from maxkernel.store.records import Event
from maxkernel.store.runfile import FILE_NAME, RunFile

FINISHED = "finished"
"""Kind of the event that ends a run; a run that goes on afterwards may have several."""
WITHDRAWN = "withdrawn"
"""Kind of the event that takes the end back: the acceptance was undone."""


class RunSummary(msgspec.Struct, frozen=True):
    """One line of `maxkernel runs`."""

    run: str
    folder: str
    task: str
    target: str
    created: float
    state: str
    """`running`, `stopped` (resumable) or `finished`."""
    evaluations: int
    best_seconds: float | None
    outcome: str = ""
    digest: str = ""
    """Of the task."""


def list_runs(root: Path) -> list[RunSummary]:
    """Runs below `root`, newest first; unreadable ones are left out."""
    found: list[RunSummary] = []
    for path in root.glob(f"*/{FILE_NAME}"):
        try:
            with RunFile.read(path.parent) as run:
                found.append(_summarise(run))
        except (UsageError, msgspec.DecodeError):
            continue
    return sorted(found, key=lambda summary: summary.created, reverse=True)


def find_run(root: Path, name: str) -> Path:
    """The folder of a run given by name, unique prefix, `last`, or path."""
    direct = Path(name)
    if (direct / FILE_NAME).is_file():
        return direct
    folders = sorted(path.parent for path in root.glob(f"*/{FILE_NAME}"))
    if name == "last" and folders:
        return max(folders, key=lambda folder: (folder / FILE_NAME).stat().st_ctime)
    matches = [f for f in folders if f.name == name] or [
        f for f in folders if f.name.startswith(name)
    ]
    if len(matches) == 1:
        return matches[0]
    if matches:
        names = ", ".join(f.name for f in matches[:5])
        raise UsageError(f"{name!r} is the start of several runs: {names}")
    known = ", ".join(f.name for f in folders[-5:]) or "none yet"
    raise UsageError(f"no run {name!r} in {root}; runs there: {known}")


def ending(run: RunFile) -> Event | None:
    """The event that ended a run and still counts; None while it has not ended."""
    last = None
    for event in run.events():
        if event.kind in (FINISHED, WITHDRAWN):
            last = event
    return last if last is not None and last.kind == FINISHED else None


def _summarise(run: RunFile) -> RunSummary:
    header = run.header
    times = [e.time.seconds for _, e in run.evaluations() if e.accepted and e.time]
    finished = ending(run)
    state = "finished" if finished else "running" if run.driven() else "stopped"
    return RunSummary(
        run=header.run,
        folder=str(run.folder),
        task=header.task.name,
        target=header.target,
        created=header.created,
        state=state,
        evaluations=len(run.evaluations()),
        best_seconds=min(times, default=None),
        outcome=str(finished.body.get("outcome", "")) if finished else "",
        digest=header.task.digest,
    )
