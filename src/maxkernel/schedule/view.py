"""A profile as data: the shares and names that the text, the JSON and the picture all show."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from maxkernel.schedule.constants import clock_behind, slots_of
from maxkernel.schedule.digest import digest
from maxkernel.schedule.expectation import expected_error
from maxkernel.schedule.explain import Finding, bottleneck, limit_of, outside_ops, what_it_does
from maxkernel.schedule.units import op_use, registers_of, spill_share, unit_use
from maxkernel.targets import Target
from maxkernel.types import (
    BufferUse,
    CopyTime,
    LineTime,
    OpTime,
    ProgramTime,
    RegionTime,
    TraceEvent,
)

_LANES = 1024
"""Elements of a vector register of 32-bit values: 8 x 128."""
_OPS = 24
_LEAST = 2e-4
"""Share of the time below which an op is not told on its own."""


class RegionView(msgspec.Struct, frozen=True):
    """A region of a kernel. Shares are of the op's cycles, `use` of unit slots while working."""

    name: str
    kind: str
    where: str
    """`kernel.py:21-26`; empty where the compiler names no line."""
    executions: int
    cycles: float
    share: float
    waiting: float
    """Share of the region's own cycles that wait for DMAs."""
    idle: float
    """Share of the region's own cycles that issue nothing."""
    waits: dict[str, float]
    """Cycles by the copy that was waited for."""
    use: dict[str, float]
    live_registers: int
    spills: float
    """Share of its loads and stores that save and restore registers."""


class OpView(msgspec.Struct, frozen=True):
    """An op of the program."""

    name: str
    kind: str
    does: str
    """`kernel`, or what XLA's op is: `transpose`, `copy`, `fusion` ..."""
    calls: int
    seconds: float
    share: float
    waiting: float
    moved_bytes: float
    needed_bytes: float
    use: dict[str, float]
    spills: float
    vmem_bytes: int
    limit: Finding
    """What limits it; the gain is a share of the op's time."""
    regions: tuple[RegionView, ...] = ()
    copies: tuple[CopyTime, ...] = ()
    buffers: tuple[BufferUse, ...] = ()
    lines: tuple[LineTime, ...] = ()
    trace: tuple[TraceEvent, ...] = ()


class ProfileView(msgspec.Struct, frozen=True):
    """Where a program's time goes."""

    name: str
    target: str
    seconds: float
    provenance: str
    expected_error: float
    cycles: float
    clock_hz: float
    bound_seconds: float
    """The task's roofline; 0 where it is not known."""
    bottleneck: Finding
    outside: float
    """Share of the time in XLA's ops beside Pallas kernels."""
    moved_bytes: float
    vmem_bytes: int
    registers: int
    ops: tuple[OpView, ...]
    assumptions: tuple[str, ...]
    unknown: dict[str, int]
    compiler: str
    digest: tuple[str, ...]


class RooflinePoint(msgspec.Struct, frozen=True):
    """A program on the roofline: operations per byte of HBM traffic, and operations a second."""

    name: str
    intensity: float
    rate: float


class Roof(msgspec.Struct, frozen=True):
    """The roofline of a target: matrix products, or vector operations where there are none."""

    operations: str
    peak: float
    bandwidth: float
    points: tuple[RooflinePoint, ...]


def profile_view(
    name: str, program: ProgramTime, bound: float = 0.0, source: str = "", needed: float = 0.0
) -> ProfileView:
    """The profile of a program.

    `bound` is its task's roofline in seconds, `needed` the bytes that the task has to move.
    """
    cycles = max(program.cycles, 1.0)
    ops = sorted(program.ops, key=lambda op: -op.cycles)
    return ProfileView(
        name=name,
        target=program.target,
        seconds=program.seconds,
        provenance="simulated",
        expected_error=expected_error(program),
        cycles=program.cycles,
        clock_hz=program.clock_hz,
        bound_seconds=bound,
        bottleneck=bottleneck(program, bound, needed),
        outside=sum(op.cycles for op in outside_ops(program)) / cycles,
        moved_bytes=_moved(program),
        vmem_bytes=program.vmem_bytes,
        registers=registers_of(program.target),
        ops=tuple(_op(op, program) for op in ops[:_OPS] if op.cycles > _LEAST * cycles),
        assumptions=program.assumptions,
        unknown=program.unknown,
        compiler=program.compiler,
        digest=tuple(digest(program, bound, source, needed)),
    )


def roof(
    programs: Sequence[tuple[str, ProgramTime]], flops: float, rate: float, target: Target
) -> Roof:
    """Programs under the roofline of `target`.

    `flops` are those of the task's matrix products and `rate` the peak for their dtype. A task
    without products is shown by its vector operations: a slot of a bundle is 1024 of them.
    """
    clock = clock_behind(programs[0][1]) if programs else None
    slots = slots_of(target.name)
    matrix = flops > 0
    peak = rate if matrix else (clock.hz if clock else target.clock_hz) * slots.valu * _LANES
    points: list[RooflinePoint] = []
    for name, program in programs:
        done = flops if matrix else _vector_operations(program)
        moved = _moved(program)
        if done and moved and program.seconds:
            points.append(RooflinePoint(name, done / moved, done / program.seconds))
    return Roof("flop" if matrix else "vector op", peak, target.hbm_bandwidth, tuple(points))


def _op(op: OpTime, program: ProgramTime) -> OpView:
    cycles = max(op.cycles, 1.0)
    return OpView(
        name=op.name,
        kind=op.kind,
        does=what_it_does(op) if op.kind == "xla" else op.kind,
        calls=op.calls,
        seconds=op.seconds,
        share=op.cycles / max(program.cycles, 1.0),
        waiting=op.stall_cycles / cycles,
        moved_bytes=op.read_bytes + op.write_bytes,
        needed_bytes=op.needed_bytes,
        use=op_use(op, program.target),
        spills=spill_share(op.units),
        vmem_bytes=sum(buffer.bytes for buffer in op.buffers),
        limit=limit_of(op, program),
        regions=tuple(_region(region, cycles, program.target) for region in op.regions),
        copies=op.copies,
        buffers=op.buffers,
        lines=op.lines,
        trace=op.trace,
    )


def _region(region: RegionTime, cycles: float, target: str) -> RegionView:
    own = max(region.cycles, 1.0)
    first, last = region.lines
    where = f"{region.file}:{first}" + (f"-{last}" if last > first else "") if first else ""
    return RegionView(
        name=region.name,
        kind=region.kind,
        where=where,
        executions=region.executions,
        cycles=region.cycles,
        share=region.cycles / cycles,
        waiting=region.stall_cycles / own,
        idle=region.idle_cycles / own,
        waits=region.waits,
        use=unit_use(region.units, region.cycles - region.stall_cycles, target),
        live_registers=region.live_registers,
        spills=spill_share(region.units),
    )


def _moved(program: ProgramTime) -> float:
    return sum(op.read_bytes + op.write_bytes for op in program.ops)


def _vector_operations(program: ProgramTime) -> float:
    return _LANES * float(sum(op.units.get("valu", 0) for op in program.ops))
