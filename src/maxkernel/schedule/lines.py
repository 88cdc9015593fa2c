"""Cycles by source line: what the compiler's locations say about an op's bundles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from maxkernel.schedule.opcodes import COUNTED
from maxkernel.schedule.program import OpRun
from maxkernel.schedule.text import Bundle
from maxkernel.types import LineTime

_LIMIT = 24
"""Lines kept of one op: the ones that take longest, in order of the source."""
_SHARE = 0.02
"""Lines with less than this share of a region do not widen the range that names it."""


def executions_of(run: OpRun) -> list[int]:
    """How often each bundle of an op ran, over all its calls."""
    assert run.executable is not None
    counts = [0] * len(run.executable.program.bundles)
    for block, count in zip(run.executable.blocks, run.counts, strict=True):
        if count:
            for at in range(block.start, block.end):
                counts[at] += count
    return counts


def cycles_of(run: OpRun, executions: Sequence[int]) -> list[int]:
    """Cycles of each bundle of an op over all its calls, waits for copies left out."""
    assert run.executable is not None
    waits = run.executable.held
    return [count * (1 + waits.get(at, 0)) for at, count in enumerate(executions)]


def cycles_by_place(
    bundles: Sequence[Bundle], spent: Sequence[int], start: int, end: int
) -> dict[int, float]:
    """Cycles of each place in bundles `start` to `end` (exclusive), from those of each bundle.

    A cycle is split evenly among the instructions that have a place. An empty bundle waits for a
    result, so its cycle goes to what issues next; a bundle of instructions with no place (pipeline
    control, register spills) belongs to no line.
    """
    found: dict[int, float] = {}
    idle = 0
    for at in range(start, end):
        bundle, count = bundles[at], spent[at]
        if not count:
            continue
        if bundle.places:
            each = (count + idle) / len(bundle.places)
            for place, _ in bundle.places:
                found[place] = found.get(place, 0.0) + each
            idle = 0
        elif any(bundle.units):
            idle = 0
        else:
            idle += count
    return found


def lines_of(run: OpRun) -> tuple[LineTime, ...]:
    """The source lines of a kernel with their cycles; empty where the compiler named none."""
    if run.executable is None:
        return ()
    program = run.executable.program
    executions = executions_of(run)
    spent = cycles_of(run, executions)
    cycles = cycles_by_place(program.bundles, spent, 0, len(program.bundles))
    stalls = _stalls(run)
    units: dict[int, Counter[str]] = {}
    for bundle, count in zip(program.bundles, executions, strict=True):
        for place, unit in bundle.places if count else ():
            units.setdefault(place, Counter())[COUNTED[unit]] += count
    lines = [
        LineTime(file, line, cycles[place] + stalled, stalled, dict(units[place]))
        for place, (file, line) in enumerate(program.places)
        if line and place in cycles
        for stalled in (stalls.get(place, 0.0),)
    ]
    kept = sorted(lines, key=lambda line: -line.cycles)[:_LIMIT]
    return tuple(sorted(kept, key=lambda line: (line.file, line.line)))


def named_lines(run: OpRun, cycles: Mapping[int, float]) -> tuple[str, tuple[int, int], int]:
    """File, first and last line, and the line with most cycles, of a region."""
    assert run.executable is not None
    places = run.executable.program.places
    total = sum(cycles.values())
    if not total:
        return "", (0, 0), 0
    hot = max(cycles, key=lambda place: cycles[place])
    file, line = places[hot]
    near = [
        places[place][1]
        for place, value in cycles.items()
        if places[place][0] == file and value >= _SHARE * total
    ]
    return file, (min(near), max(near)), line


def _stalls(run: OpRun) -> dict[int, float]:
    """Stall cycles of waits that stand on a source line: manual copies."""
    assert run.executable is not None
    done = run.calls - run.repeated
    scale = run.calls / done if done else 1.0
    found: dict[int, float] = {}
    for at, stall in run.activity.waits.items():
        places = run.executable.program.bundles[at].places
        if places:
            place = places[0][0]
            found[place] = found.get(place, 0.0) + stall * scale
    return found
