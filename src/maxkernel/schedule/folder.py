"""Finds, in a folder of dumps, the main program of one compile and the file of each of its ops."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from maxkernel.schedule.hlo import Hlo, parse_hlo
from maxkernel.schedule.origin import SOURCE_FLAG
from maxkernel.schedule.problem import ScheduleError

_DUMP_FLAGS = (
    "--xla_jf_dump_to={folder} --xla_jf_dump_llo_text=true "
    "--xla_jf_dump_llo_pass_label_regex=(packed-bundles-post-ra|deduplication-map)"
)
_SOURCE_SINCE = (0, 0, 42)
"""The oldest libtpu that was tried with the flag for source lines; one that does not know a flag
refuses to start."""

TOP = "TLP"
"""The compiler's name for the top-level program."""

_SCHEDULE = re.compile(r"(\d+)-(.*)-\d+-packed-bundles-post-ra\.txt\Z", re.DOTALL)
_ENTRY = re.compile(r"^ENTRY ", re.MULTILINE)
_NAME_LIMIT = 120
"""Names longer than this may have been shortened in a file's name."""


def dump_flags(folder: Path, libtpu: str) -> str:
    """For LIBTPU_INIT_ARGS, before jax is imported; read once per process.

    `libtpu` is its version. Clear the folder between compiles.
    """
    version = tuple(int(part) for part in re.findall(r"\d+", libtpu)[:3])
    flags = _DUMP_FLAGS.format(folder=folder)
    return f"{flags} --{SOURCE_FLAG}=true" if version >= _SOURCE_SINCE else flags


class Dump(msgspec.Struct, frozen=True):
    """The files of one compiled program. `files` maps an HLO name to its schedule."""

    top: Path
    files: dict[str, Path]
    equal: dict[str, str]
    """HLO name -> name of the equal instruction that was compiled in its place."""
    hlo: Hlo
    prints: dict[str, Path]
    """Fingerprint of an instruction -> its schedule, where the compiler wrote no such pairs."""
    vmem: str = ""
    """The compiler's report of what lies in VMEM: a page."""
    has_module: bool = True
    """Without the module's text kernels, collectives and equal ops would stay unseen."""

    def schedule_of(self, name: str) -> Path | None:
        """The schedule that runs for an HLO instruction; None where it has none."""
        found = self.files.get(name) or self.files.get(self.equal.get(name, ""))
        if found is None and name in self.hlo.lines and self.prints:
            return self.prints.get(self.hlo.fingerprint(name))
        return found


def open_dump(folder: Path) -> Dump:
    """The newest compile with the largest top-level program (helpers leave small ones).

    Raises ScheduleError(`missing`) where the folder holds no top-level schedule.
    """
    found = _schedules(folder)
    tops = [(path.stat().st_size, stamp, path) for stamp, name, path in found if name == TOP]
    if not tops:
        raise ScheduleError(
            "missing",
            f"{folder}: no *-{TOP}-*-packed-bundles-post-ra.txt; was LIBTPU_INIT_ARGS set before "
            "jax was imported?",
        )
    _, stamp, top = max(tops)
    end = min((other for _, other, _ in tops if other > stamp), default=None)
    files: dict[str, Path] = {}
    for other, name, path in found:
        if name != TOP and other >= stamp and (end is None or other < end):
            files.setdefault(_full_name(folder, other, name), path)
    module = _module(folder, stamp)
    equal = _equal(_read_first(folder, f"{stamp}-{TOP}-*deduplication-map*.txt"))
    hlo = parse_hlo(module or "")
    named = {} if equal else {name: path for name, path in files.items() if name in hlo.lines}
    prints = {hlo.fingerprint(name): path for name, path in named.items()}
    vmem = _read_first(folder, f"{stamp}-{TOP}-*vmem_report.html")
    return Dump(top, files, equal, hlo, prints, vmem, module is not None)


def _schedules(folder: Path) -> list[tuple[int, str, Path]]:
    """(time stamp, name, path) of every schedule in the folder."""
    matches = [(path, _SCHEDULE.match(path.name)) for path in sorted(folder.glob("*.txt"))]
    return [(int(match[1]), match[2], path) for path, match in matches
            if match and "schedule-analysis" not in path.name]  # fmt: skip


def _first(folder: Path, *patterns: str) -> Path | None:
    found = (path for pattern in patterns for path in sorted(folder.glob(pattern)))
    return next(found, None)


def _read_first(folder: Path, pattern: str) -> str:
    path = _first(folder, pattern)
    return path.read_text(errors="replace") if path else ""


def _module(folder: Path, stamp: int) -> str | None:
    """The text of the module, if there is one. Raises ScheduleError where it ends early."""
    path = _first(folder, f"{stamp}-{TOP}-hlo.txt", f"{stamp}-{TOP}-*hlo*.txt")
    if path is None:
        return None
    text = path.read_text(errors="replace")
    if text.startswith("HloModule") and not (_ENTRY.search(text) and text.rstrip()[-1] == "}"):
        raise ScheduleError("truncated", f"{path.name}: the module's text ends early")
    return text


def _full_name(folder: Path, stamp: int, name: str) -> str:
    """The HLO name behind a file name, which is shortened where it is long."""
    if len(name) <= _NAME_LIMIT:
        return name
    analysis = _read_first(folder, f"{stamp}-*schedule-analysis*.txt")
    found = re.search(r"bundles \([ \d.]+%\): %([\w.\-]+) = ", analysis)
    return found[1] if found else name


def _equal(text: str) -> dict[str, str]:
    """Pairs of a deduplication map: `key:K`, then the names that share K's program."""
    pairs: dict[str, str] = {}
    key = ""
    for line in text.splitlines():
        if line.startswith("key:"):
            key = line[4:].strip()
        elif line.startswith("  "):
            pairs[line.strip()] = key
    return pairs
