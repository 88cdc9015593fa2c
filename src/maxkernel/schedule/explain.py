"""Says in words where a program's time goes, and what would make it faster."""

from __future__ import annotations

import textwrap

import msgspec

from maxkernel.schedule.constants import Clock, clock_named, slots_of
from maxkernel.schedule.expectation import expected_error
from maxkernel.targets import TARGETS
from maxkernel.types import CopyTime, OpTime, ProgramTime, RegionTime

LINES = 60
_WIDTH = 120
_OPS = 6
_REGIONS = 8
_COPIES = 6
_MEMORY_BOUND = 0.75
"""Share of the effective bandwidth from which waiting means that the memory is busy."""
_BUSY = 0.6
"""Share of its slots from which a unit counts as the limit of a program that does not wait."""


class Finding(msgspec.Struct, frozen=True):
    """What limits an op: a sentence, and the share of its time that removing it could save."""

    sentence: str
    gain: float


def digest(program: ProgramTime) -> list[str]:
    """At most `LINES` lines: totals, the bottleneck, ops, and regions and copies of the slowest."""
    error = 100 * expected_error(program)
    lines = [
        f"{program.target}: {_time(program.seconds)} simulated, expected error {error:.0f} % "
        f"({program.cycles:.0f} cycles at {program.clock_hz / 1e9:.2f} GHz)"
    ]
    ops = [op for op in sorted(program.ops, key=lambda op: -op.cycles) if op.cycles > 0]
    if not ops:
        return lines
    slowest = ops[0]
    share = slowest.cycles / program.cycles
    found = bottleneck(slowest, program)
    sentence = (
        f"bottleneck: {slowest.name[:60]} takes {100 * share:.0f} % of the time; {found.sentence} "
        f"Removing this limit saves at most {100 * share * found.gain:.0f} % of the program."
    )
    lines += textwrap.wrap(sentence, _WIDTH, subsequent_indent="  ")
    outside = sum(op.cycles for op in ops if op.kind != "kernel")
    if any(op.kind == "kernel" for op in ops) and outside > 0.02 * program.cycles:
        lines.append(
            f"  {100 * outside / program.cycles:.0f} % of the time is outside Pallas kernels"
        )
    lines.append("ops (time, share, waiting, HBM traffic / least possible):")
    lines += [_op_line(op, program) for op in ops[:_OPS]]
    for op in [op for op in ops if op.regions][:2]:
        lines += _details(op, program)
    lines += [f"assumed: {note}" for note in program.assumptions[:4]]
    if program.unknown:
        names = ", ".join(f"{name} x{count}" for name, count in list(program.unknown.items())[:6])
        lines.append(f"instructions of unknown unit: {names}")
    return [line[:_WIDTH] for line in lines[:LINES]]


def bottleneck(op: OpTime, program: ProgramTime) -> Finding:
    """What limits an op most."""
    waiting = op.stall_cycles / op.cycles
    clock = clock_named(program.target)
    if waiting > 0.25:
        return _waiting(op, waiting, clock)
    cores = TARGETS[program.target].cores if program.target in TARGETS else 1
    use = unit_use(op.units, cores * (op.cycles - op.stall_cycles), program.target)
    unit = max(use, key=lambda name: use[name]) if use else ""
    spills = op.units.get("spill", 0)
    memory = op.units.get("load", 0) + op.units.get("store", 0)
    control = _control(op)
    if control > 0.3:
        return Finding(
            f"{100 * control:.0f} % of its cycles only steer the pipeline: make blocks larger, so "
            "that there are fewer steps.",
            control,
        )
    if use.get(unit, 0.0) >= _BUSY:
        gain = 0.0 if unit == "mxu" else 1 - max(use.get("mxu", 0.0), 0.1)
        more = f" ({100 * spills / memory:.0f} % of loads and stores are register spills)" if (
            unit in ("load", "store") and memory and spills > 0.2 * memory) else ""  # fmt: skip
        return Finding(
            f"it is limited by the {_UNITS[unit]}, {100 * use[unit]:.0f} % busy{more}.", gain
        )
    if memory and spills > 0.3 * memory:
        return Finding(
            f"no unit is saturated, and {100 * spills / memory:.0f} % of its loads and stores are "
            "register spills: work on smaller pieces of the block at a time.",
            0.3,
        )
    busiest = ", ".join(f"{_UNITS[name]} {100 * value:.0f} %" for name, value in
                        sorted(use.items(), key=lambda item: -item[1])[:3])  # fmt: skip
    return Finding(
        f"it waits on its own results (latency): no unit is saturated ({busiest}); give it more "
        "independent work at once.",
        1 - max(use.values(), default=0.0),
    )


def unit_use(units: dict[str, int], cycles: float, target: str) -> dict[str, float]:
    """Share of each unit's slots that were used in those cycles of one core, 0 to 1."""
    if cycles <= 0:
        return {}
    slots = slots_of(target)
    busy = {
        "mxu": units.get("matmul", 0) * slots.matmul_cycles / (slots.mxu * cycles),
        "xlu": units.get("xlu", 0) / (slots.xlu * cycles),
        "valu": (units.get("valu", 0) + units.get("eup", 0)) / (slots.valu * cycles),
        "eup": units.get("eup", 0) / (slots.eup * cycles),
        "load": units.get("load", 0) / (slots.load * cycles),
        "store": units.get("store", 0) / (slots.store * cycles),
        "scalar": units.get("scalar", 0) / (slots.scalar * cycles),
    }
    return {name: min(1.0, value) for name, value in busy.items() if value > 0}


_UNITS = {
    "mxu": "matrix units",
    "xlu": "cross-lane unit",
    "valu": "vector ALU",
    "eup": "transcendental unit",
    "load": "VMEM loads",
    "store": "VMEM stores",
    "scalar": "scalar unit",
}


def _waiting(op: OpTime, waiting: float, clock: Clock | None) -> Finding:
    moved = op.read_bytes + op.write_bytes
    rate = moved / op.seconds
    bandwidth = clock.bandwidth if clock else rate
    blame = max(op.copies, key=lambda copy: copy.stall_cycles, default=None)
    whom = f", mostly for {blame.name}" if blame and blame.stall_cycles > 0 else ""
    start = f"it waits for copies {100 * waiting:.0f} % of the time{whom}"
    if rate >= _MEMORY_BOUND * bandwidth:
        useful = op.needed_bytes / moved if op.needed_bytes and moved else 1.0
        if useful < 0.8:
            return Finding(
                f"{start}: HBM is busy ({_rate(rate)}), but it moves {_size(moved)} where "
                f"{_size(op.needed_bytes)} would do: read each block once.",
                min(waiting, 1 - useful),
            )
        return Finding(
            f"{start}: HBM is busy ({_rate(rate)}, {100 * rate / bandwidth:.0f} % of what it "
            "sustains) and little is read twice; only smaller data or fusion helps.",
            max(0.0, 1 - rate / bandwidth),
        )
    return Finding(
        f"{start}, at {_rate(rate)}, {100 * rate / bandwidth:.0f} % of what HBM sustains: copies "
        "are too small or start too late; use larger blocks or more buffers.",
        waiting,
    )


def _control(op: OpTime) -> float:
    """Share of an op's working cycles in regions that only steer: no vector work."""
    idle = sum(r.cycles - r.stall_cycles for r in op.regions if not _works(r))
    return idle / max(1.0, op.cycles - op.stall_cycles)


def _works(region: RegionTime) -> bool:
    return any(region.units.get(unit) for unit in ("mxu", "xlu", "valu", "eup", "load", "store"))


def _op_line(op: OpTime, program: ProgramTime) -> str:
    moved = op.read_bytes + op.write_bytes
    traffic = f"{_size(moved)} / {_size(op.needed_bytes)}" if op.needed_bytes else _size(moved)
    calls = f" x{op.calls}" if op.calls > 1 else ""
    return (
        f"  {_time(op.seconds):>9s} {100 * op.cycles / program.cycles:4.0f} % "
        f"waits {100 * op.stall_cycles / op.cycles:3.0f} %  {traffic}  "
        f"{op.kind} {op.name[:48]}{calls}"
    )


def _details(op: OpTime, program: ProgramTime) -> list[str]:
    lines = [
        f"{op.name[:60]}: {op.bundles} bundles; regions (cycles, waits, units of their slots):"
    ]
    kept = sorted(op.regions, key=lambda region: -region.cycles)[:_REGIONS]
    for region in (region for region in op.regions if region in kept):
        use = unit_use(region.units, region.cycles - region.stall_cycles, program.target)
        busy = " ".join(f"{name} {100 * value:.0f}" for name, value in use.items() if value >= 0.05)
        lines.append(
            f"  {region.cycles:12.0f} {100 * region.cycles / op.cycles:3.0f} % waits "
            f"{100 * region.stall_cycles / max(1.0, region.cycles):3.0f} %  {region.name}  [{busy}]"
        )
    copies = sorted(op.copies, key=lambda copy: -copy.stall_cycles)[:_COPIES]
    lines += [_copy_line(copy, op) for copy in copies]
    return lines


def _copy_line(copy: CopyTime, op: OpTime) -> str:
    each = copy.bytes / max(1, copy.count)
    return (
        f"  copy {copy.source} to {copy.destination}, {copy.name}: {copy.count} x {_size(each)} in "
        f"pieces of {_size(copy.bytes / max(1, copy.pieces))}, waited for "
        f"{100 * copy.stall_cycles / op.cycles:.0f} %"
    )


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms" if seconds >= 1e-4 else f"{seconds * 1e6:.2f} us"


def _rate(rate: float) -> str:
    return f"{rate / 1e9:.0f} GB/s"


def _size(size: float) -> str:
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return f"{size:.0f} B"
