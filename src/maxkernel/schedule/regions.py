"""Where an op's time went: stretches of its program that run equally often, and its copies."""

from __future__ import annotations

from maxkernel.schedule.opcodes import COUNTED
from maxkernel.schedule.program import OpRun
from maxkernel.types import CopyTime, RegionTime

_LIMIT = 16
"""Regions and copies kept of one op: the ones that take longest, in program order."""

_STAGES = 8
"""At most this many more times than it has steps does a pipeline's loop run."""


class _Stretch:
    """Neighbouring blocks with one number of executions."""

    def __init__(self, start: int, executions: int) -> None:
        self.start = self.end = start
        self.executions = executions


def regions_of(run: OpRun) -> tuple[RegionTime, ...]:
    """The regions of an op, over all its calls."""
    if run.executable is None:
        return ()
    regions = [_region(run, stretch) for stretch in _stretches(run) if stretch.executions]
    steps = _steps(regions)
    named = [_named(region, steps) for region in regions]
    kept = sorted(named, key=lambda region: -region.cycles)[:_LIMIT]
    return tuple(region for region in named if region in kept)


def copies_of(run: OpRun) -> tuple[CopyTime, ...]:
    """The DMA instructions of an op that ran, over all its calls."""
    done = run.calls - run.repeated
    scale = run.calls / done if done else 1.0
    copies = [
        CopyTime(
            name=stats.site.name,
            source=stats.site.source,
            destination=stats.site.destination,
            count=round(stats.count * scale),
            bytes=stats.bytes * scale,
            pieces=round(stats.pieces * scale),
            stall_cycles=stats.stall * scale,
        )
        for stats in run.activity.sites
        if stats.count
    ]
    kept = sorted(copies, key=lambda copy: -(copy.stall_cycles + 1e-9 * copy.bytes))[:_LIMIT]
    return tuple(copy for copy in copies if copy in kept)


def _stretches(run: OpRun) -> list[_Stretch]:
    """Runs of bundles; delay slots that two blocks share count with the first of them."""
    assert run.executable is not None
    bundles = run.executable.program.bundles
    found: list[_Stretch] = []
    for block, count in zip(run.executable.blocks, run.counts, strict=True):
        start = max(block.start, found[-1].end if found else 0)
        if block.end <= start:
            continue
        last = found[-1] if found else None
        same_depth = last is not None and bundles[last.start].depth == bundles[start].depth
        if last is None or last.executions != count or not same_depth:
            last = _Stretch(start, count)
            found.append(last)
        last.end = block.end
    return found


def _region(run: OpRun, stretch: _Stretch) -> RegionTime:
    assert run.executable is not None
    bundles = run.executable.program.bundles[stretch.start : stretch.end]
    totals = [sum(column) * stretch.executions for column in
              zip(*(bundle.units for bundle in bundles), strict=True)]  # fmt: skip
    done = run.calls - run.repeated
    scale = run.calls / done if done else 1.0
    waited = (stall for bundle, stall in run.activity.waits.items()
              if stretch.start <= bundle < stretch.end)  # fmt: skip
    stall = sum(waited) * scale
    return RegionTime(
        name="",
        bundles=(stretch.start, stretch.end - 1),
        depth=max(bundle.depth for bundle in bundles),
        executions=stretch.executions,
        cycles=len(bundles) * stretch.executions + stall,
        stall_cycles=stall,
        units={unit: count for unit, count in zip(COUNTED, totals, strict=True) if count},
    )


def _steps(regions: list[RegionTime]) -> int:
    """Steps of the innermost pipeline: its loop runs a few more times to fill and drain."""
    counts = [region.executions for region in regions if region.depth]
    most = max(counts, default=0)
    return min((count for count in counts if count >= most - _STAGES), default=0)


def _named(region: RegionTime, steps: int) -> RegionTime:
    """The region with a name that says how it stands to the steps of the loop."""
    if region.depth == 0:
        name = "outside the loop"
    elif region.executions > steps:
        name = f"pipeline control ({steps} steps)"
    elif region.executions == steps:
        name = f"every step ({steps})"
    else:
        name = f"branch in {region.executions} of {steps} steps"
    return RegionTime(
        name, region.bundles, region.depth, region.executions, region.cycles,
        region.stall_cycles, region.units,
    )  # fmt: skip
