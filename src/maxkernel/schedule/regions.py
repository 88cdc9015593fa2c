"""Where an op's time went: stretches of its program that run equally often, and its copies."""

from __future__ import annotations

from collections import Counter

import msgspec

from maxkernel.schedule.hlo import bytes_of_shapes
from maxkernel.schedule.lines import cycles_by_place, cycles_of, executions_of, named_lines
from maxkernel.schedule.opcodes import COUNTED
from maxkernel.schedule.pressure import live_registers
from maxkernel.schedule.program import OpRun, weighted
from maxkernel.types import CopyTime, RegionTime
from maxkernel.types.clock import RegionKind

_LIMIT = 16
"""Copies kept of one op, and regions of it: the ones that take longest, in program order."""
_STAGES = 8
"""At most this many more times than it has steps does a pipeline's loop run."""
_WAIT = 0.02
"""Share of an op's stalls from which a wait is told apart from the work around it."""
_SEAM = 6
"""Bundles of a stretch that is only a seam: delay slots that two blocks share."""
WORKING = ("mxu", "xlu", "valu", "eup", "load", "store")
"""Units that a region uses when it does more than steer."""
_WORK = tuple(COUNTED.index(unit) for unit in WORKING)


class _Stretch:
    """Neighbouring bundles with one number of executions, and seams between them."""

    def __init__(self, start: int, executions: int, depth: int, works: bool) -> None:
        self.start = start
        self.end = start + 1
        self.executions = executions
        self.depth = depth
        self.works = works
        self.waits = False


def regions_of(run: OpRun, pressure: bool) -> tuple[RegionTime, ...]:
    """The regions of an op over all its calls, in program order; their cycles add up to the op's.

    Regions beyond the limit are added up in one, the last. `pressure`: with their registers.
    """
    if run.executable is None:
        return ()
    executions = executions_of(run)
    bundles = run.executable.program.bundles
    live = live_registers(bundles, run.executable.blocks) if pressure else [0] * len(bundles)
    spent = cycles_of(run, executions)
    stretches = _stretches(run, executions)
    regions = [_region(run, stretch, executions, spent, live) for stretch in stretches]
    named = _named(regions)
    kept = sorted(named, key=lambda region: -region.cycles)[:_LIMIT]
    rest = [region for region in named if region not in kept]
    return tuple(region for region in named if region in kept) + _rest(rest)


def copies_of(run: OpRun) -> tuple[CopyTime, ...]:
    """The DMA instructions of an op that ran, over all its calls."""
    scale = _scale(run)
    copies = [
        CopyTime(
            name=stats.site.name,
            source=stats.site.source,
            destination=stats.site.destination,
            count=round(stats.count * scale),
            bytes=stats.bytes * scale,
            pieces=round(stats.pieces * scale),
            stall_cycles=stats.stall * scale,
            whole_bytes=float(bytes_of_shapes(stats.site.whole)) * run.calls,
        )
        for stats in run.activity.sites
        if stats.count
    ]
    kept = sorted(copies, key=lambda copy: -(copy.stall_cycles + 1e-9 * copy.bytes))[:_LIMIT]
    return tuple(copy for copy in copies if copy in kept)


def works(region: RegionTime) -> bool:
    """True for a region that computes, loads or stores; False for one that only steers or waits."""
    return any(region.units.get(unit) for unit in WORKING)


def _scale(run: OpRun) -> float:
    """Calls per call that was executed: the others repeat the last one."""
    done = run.calls - run.repeated
    return run.calls / done if done else 1.0


def _stretches(run: OpRun, executions: list[int]) -> list[_Stretch]:
    """Runs of bundles; neighbours that only steer are one, and so are seams with what is before."""
    assert run.executable is not None
    parts: list[_Stretch] = []
    bundles = run.executable.program.bundles
    kinds = {bundle.units for bundle in bundles}
    working = {units for units in kinds if any(units[unit] for unit in _WORK)}
    for at, bundle in enumerate(bundles):
        active = bundle.units in working
        waits = run.activity.waits.get(at, 0.0) > _WAIT * run.stall
        last = parts[-1] if parts else None
        depth = bundle.depth
        if last and (not any(bundle.units) or (not depth and executions[at] > run.calls)):
            depth = last.depth
        turns = last and ((waits and last.works) or (active and last.waits))
        if last and not turns and (last.executions, last.depth) == (executions[at], depth):
            last.end = at + 1
            last.works |= active
        else:
            last = _Stretch(at, executions[at], depth, active)
            parts.append(last)
        last.waits |= waits
    joined: list[_Stretch] = []
    for part in (part for part in parts if part.executions):
        last = joined[-1] if joined else None
        if last and last.depth == part.depth and _joins(last, part):
            last.end = part.end
            last.waits |= part.waits
            if not last.works:
                last.executions = max(last.executions, part.executions)
        else:
            joined.append(part)
    return joined


def _joins(last: _Stretch, part: _Stretch) -> bool:
    """Whether a stretch that does no work is told together with the one before it."""
    if part.works:
        return False
    return not last.works or (part.end - part.start <= _SEAM and not part.waits)


def _region(
    run: OpRun, stretch: _Stretch, executions: list[int], spent: list[int], live: list[int]
) -> RegionTime:
    assert run.executable is not None
    bundles = run.executable.program.bundles
    inside = range(stretch.start, stretch.end)
    weights: dict[tuple[int, ...], int] = {}
    for bundle, count in zip(bundles[stretch.start : stretch.end],
                             executions[stretch.start : stretch.end], strict=True):  # fmt: skip
        weights[bundle.units] = weights.get(bundle.units, 0) + count
    scale = _scale(run)
    stall = scale * sum(stall for at, stall in run.activity.waits.items() if at in inside)
    waits: dict[str, float] = {}
    for (at, stats), cycles in run.activity.blame.items():
        if at in inside:
            waits[stats.site.name] = waits.get(stats.site.name, 0.0) + cycles * scale
    places = cycles_by_place(bundles, spent, stretch.start, stretch.end)
    cycles = sum(spent[at] for at in inside)
    issuing = sum(count for units, count in weights.items() if any(units))
    file, lines, hot = named_lines(run, places)
    return RegionTime(
        name="",
        bundles=(stretch.start, stretch.end - 1),
        depth=stretch.depth,
        executions=stretch.executions,
        cycles=cycles + stall,
        stall_cycles=stall,
        units={unit: n for unit, n in zip(COUNTED, weighted(weights), strict=True) if n},
        waits=waits,
        file=file,
        lines=lines,
        hot_line=hot,
        live_registers=max(live[stretch.start : stretch.end]),
        idle_cycles=cycles - issuing,
    )


def _named(regions: list[RegionTime]) -> list[RegionTime]:
    """The regions with names that say how they stand to the steps of the loop over the grid."""
    looped = [index for index, region in enumerate(regions) if region.depth]
    steps = _steps(regions)
    named: list[RegionTime] = []
    for index, region in enumerate(regions):
        if not region.depth:
            where = "the whole kernel" if not looped else (
                "before the loop" if index < looped[0] else "after the loop")  # fmt: skip
            kind, name = "setup", where
        else:
            kind, name = _kind(region, steps)
        named.append(msgspec.structs.replace(region, kind=kind, name=name))
    return named


def _kind(region: RegionTime, steps: int) -> tuple[RegionKind, str]:
    if not works(region):
        if 2 * region.stall_cycles > region.cycles:
            return "wait", f"pipeline waits ({steps} steps)"
        return "control", f"pipeline control ({steps} steps)"
    if region.depth > 1:
        return "loop", f"inner loop, {region.executions / max(1, steps):.3g} rounds a step"
    if region.executions >= steps:
        return "step", f"every step ({steps})"
    return "branch", f"branch in {region.executions} of {steps} steps"


def _steps(regions: list[RegionTime]) -> int:
    """Steps of the pipeline: its loop, the outermost, runs a few more times to fill and drain."""
    counts = [region.executions for region in regions if region.depth == 1]
    working = [region.executions for region in regions if region.depth == 1 and works(region)]
    most = max(counts, default=0)
    near = [count for count in working if count >= most - _STAGES]
    return min(near or [count for count in counts if count >= most - _STAGES], default=0)


def _rest(regions: list[RegionTime]) -> tuple[RegionTime, ...]:
    if not regions:
        return ()
    units: Counter[str] = Counter()
    waits: dict[str, float] = {}
    for region in regions:
        units.update(region.units)
        waits |= {name: waits.get(name, 0.0) + cycles for name, cycles in region.waits.items()}
    ends = [end for region in regions for end in region.bundles]
    return (
        RegionTime(
            name=f"{len(regions)} shorter stretches",
            bundles=(min(ends), max(ends)),
            depth=0,
            executions=0,
            cycles=sum(region.cycles for region in regions),
            stall_cycles=sum(region.stall_cycles for region in regions),
            units=dict(units),
            waits=waits,
            live_registers=max(region.live_registers for region in regions),
            idle_cycles=sum(region.idle_cycles for region in regions),
        ),
    )
