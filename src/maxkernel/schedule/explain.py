"""What limits a program, in a sentence, and how much removing that limit could save at most."""

from __future__ import annotations

import msgspec

from maxkernel.schedule.constants import clock_behind
from maxkernel.schedule.regions import works
from maxkernel.schedule.units import UNIT_NAMES, op_use, spill_share
from maxkernel.schedule.words import rate_words, size_words
from maxkernel.types import Clock, OpTime, ProgramTime
from maxkernel.types.search import Limit

_OPS = 6
"""Ops that are looked at for the bottleneck: the slowest."""
_MEMORY_BOUND = 0.75
"""Share of the effective bandwidth from which waiting means that the memory is busy."""
_WAITING = 0.25
"""Share of an op's cycles from which its waits limit it, before anything else does."""
_BUSY = 0.6
"""Share of its slots from which a unit counts as the limit of a program that does not wait."""
_SPILLING = 0.3
"""Share of loads and stores from which register spills limit a program without a busy unit."""
_CONTROL = 0.3
"""Share of working cycles that only steer from which blocks count as too small."""
_WORTH = 0.02
"""Share of the time below which removing a limit is not worth telling."""
_TWICE = 1.2
"""Bytes moved per byte needed from which a program passes too much through HBM."""
_FULL_MXU = 0.85
"""Use of the matrix units that well-tuned products reach."""
_LIMITS: dict[str, Limit] = {
    "mxu": "mxu",
    "valu": "vector",
    "eup": "special",
    "xlu": "special",
    "load": "load_store",
    "store": "load_store",
    "scalar": "issue",
}


class Finding(msgspec.Struct, frozen=True):
    """What limits an op or a program: a sentence, and the share of its time that removing the
    limit could save at most."""

    sentence: str
    gain: float
    limit: Limit = "unknown"
    op: str = ""


def bottleneck(program: ProgramTime, bound: float = 0.0, needed: float = 0.0) -> Finding:
    """What costs a program most that could be saved.

    `bound` is the task's roofline in seconds, `needed` the bytes that it has to move. Gains are
    shares of the whole program, and never promise more than the roofline allows. Where no limit is
    worth removing, the slowest op's is told.
    """
    ops = [op for op in sorted(program.ops, key=lambda op: -op.cycles) if op.cycles > 0]
    if not ops:
        return Finding("nothing runs", 0.0)
    most = max(0.0, 1 - bound / program.seconds) if bound else 1.0
    found = [_of_op(op, program, most) for op in ops[:_OPS] if op.kind != "glue"]
    if not found:
        return Finding("only the program's own overhead takes time.", 0.0, "overhead", ops[0].name)
    outside = outside_ops(program)
    if outside:
        found.append(_outside(outside, program, most))
    found += _passes(program, needed, most)
    best = max(found, key=lambda finding: finding.gain)
    return best if best.gain >= _WORTH else found[0]


def outside_ops(program: ProgramTime) -> list[OpTime]:
    """Ops of XLA beside Pallas kernels, slowest first; none in a program without kernels."""
    if not any(op.kind == "kernel" for op in program.ops):
        return []
    ops = [op for op in program.ops if op.kind == "xla" and op.cycles > 0]
    return sorted(ops, key=lambda op: -op.cycles)


def limit_of(op: OpTime, program: ProgramTime) -> Finding:
    """What limits one op most; the gain is a share of the op's time."""
    waiting = op.stall_cycles / op.cycles if op.cycles else 0.0
    if waiting > _WAITING:
        return _waiting(op, waiting, clock_behind(program))
    use = op_use(op, program.target)
    unit = max(use, key=lambda name: use[name]) if use else ""
    spills = spill_share(op.units)
    control, idle = _control(op), _idle(op)
    if control > _CONTROL:
        return Finding(
            f"{100 * control:.0f} % of its cycles only steer the pipeline: make blocks larger, so "
            "that there are fewer steps.",
            control,
            "overhead",
        )
    if use.get(unit, 0.0) >= _BUSY:
        return _busy(op, use, unit, spills)
    if spills > _SPILLING:
        return Finding(
            f"no unit is saturated, and {100 * spills:.0f} % of its loads and stores are "
            "register spills: work on smaller pieces of the block at a time.",
            0.3,
            "load_store",
        )
    busiest = ", ".join(
        f"{UNIT_NAMES[name]} {100 * value:.0f} %"
        for name, value in sorted(use.items(), key=lambda item: -item[1])[:3]
    )
    nothing = f" and {100 * idle:.0f} % of its cycles issue nothing" if idle > 0.1 else ""
    return Finding(
        f"it waits on its own results (latency): no unit is saturated ({busiest}){nothing}; give "
        "it more independent work at once.",
        1 - max(use.values(), default=0.0),
        "issue",
    )


def _of_op(op: OpTime, program: ProgramTime, most: float) -> Finding:
    share = op.cycles / program.cycles
    found = limit_of(op, program)
    where = _hot_line(op) if found.limit not in ("hbm", "overhead") else ""
    sentence = f"{op.name[:60]} takes {100 * share:.0f} % of the time; {found.sentence}{where}"
    return Finding(sentence, min(most, share * found.gain), found.limit, op.name)


def _outside(ops: list[OpTime], program: ProgramTime, most: float) -> Finding:
    share = sum(op.cycles for op in ops) / program.cycles
    names = ", ".join(f"{op.name[:40]} ({what_it_does(op)})" for op in ops[:3])
    sentence = (
        f"{100 * share:.0f} % of the time is in XLA ops outside the kernels: {names}. Read the "
        "arrays as they lie (index maps, partial blocks) and do the arithmetic in the kernel."
    )
    return Finding(sentence, min(most, share), "overhead", ops[0].name)


def _passes(program: ProgramTime, needed: float, most: float) -> list[Finding]:
    """Where several ops hand each other arrays through HBM: what one pass could save."""
    ops = [op for op in program.ops if op.kind != "glue" and op.cycles > 0.05 * program.cycles]
    moved = sum(op.read_bytes + op.write_bytes for op in program.ops)
    waited = sum(op.stall_cycles for op in program.ops) / program.cycles
    clock = clock_behind(program)
    if len(ops) < 2 or not clock or not needed or moved < _TWICE * needed or waited < _WAITING:
        return []
    sentence = (
        f"it waits for copies {100 * waited:.0f} % of the time: its {len(ops)} ops move "
        f"{size_words(moved)} through HBM where the task needs {size_words(needed)}; one kernel "
        "that does it in one pass moves less."
    )
    gain = min(most, waited, (moved - needed) / clock.bandwidth / program.seconds)
    return [Finding(sentence, gain, "hbm", ops[0].name)]


def what_it_does(op: OpTime) -> str:
    """`transpose`, `pad`, `copy` ... by an op's HLO text and name."""
    text = f"{op.name} {op.hlo}"
    for word in ("transpose", "pad", "gather", "scatter", "sort", "reduce", "convolution"):
        if word in text:
            return word
    for word in (
        "copy-start",
        "copy",
        "slice",
        "concatenate",
        "broadcast",
        "reshape",
        "convert",
        "fusion",
    ):
        if word in text:
            return "copy" if word == "copy-start" else word
    return "op"


def _hot_line(op: OpTime) -> str:
    """Which source line takes most of a kernel's working cycles."""
    if not op.lines:
        return ""
    hot = max(op.lines, key=lambda line: line.cycles)
    share = hot.cycles / op.cycles
    return f" {hot.file}:{hot.line} alone takes {100 * share:.0f} %." if share > 0.2 else ""


def _busy(op: OpTime, use: dict[str, float], unit: str, spills: float) -> Finding:
    matrix = use.get("mxu", 0.0)
    gain = max(0.0, 1 - matrix / _FULL_MXU) if unit == "mxu" else 1 - max(matrix, 0.1)
    more = (
        f" ({100 * spills:.0f} % of loads and stores are register spills)"
        if unit in ("load", "store") and spills > 0.2
        else ""
    )
    help_ = "" if unit == "mxu" else " Do less there: fewer passes over the block, cheaper steps."
    return Finding(
        f"it is limited by the {UNIT_NAMES[unit]}, {100 * use[unit]:.0f} % busy{more}.{help_}",
        gain,
        _LIMITS[unit],
    )


def _waiting(op: OpTime, waiting: float, clock: Clock | None) -> Finding:
    moved = op.read_bytes + op.write_bytes
    rate = moved / op.seconds
    bandwidth = clock.bandwidth if clock else rate
    blame = max(op.copies, key=lambda copy: copy.stall_cycles, default=None)
    whom = f", mostly for {blame.name}" if blame and blame.stall_cycles > 0 else ""
    start = f"it waits for copies {100 * waiting:.0f} % of the time{whom}"
    useful = op.needed_bytes / moved if op.needed_bytes and moved else 1.0
    if rate < _MEMORY_BOUND * bandwidth:
        return Finding(
            f"{start}, at {rate_words(rate)}, {100 * rate / bandwidth:.0f} % of what HBM sustains: "
            "copies are too small or start too late; use larger blocks or more buffers.",
            waiting,
            "hbm",
        )
    if useful < 0.8:
        return Finding(
            f"{start}: HBM is busy ({rate_words(rate)}), but it moves {size_words(moved)} where "
            f"{size_words(op.needed_bytes)} would do: read each block once.",
            min(waiting, 1 - useful),
            "hbm",
        )
    return Finding(
        f"{start}: HBM is busy ({rate_words(rate)}, {100 * rate / bandwidth:.0f} % of what it "
        "sustains) and little is read twice; only smaller data or fusion helps.",
        max(0.0, 1 - rate / bandwidth),
        "hbm",
    )


def _control(op: OpTime) -> float:
    """Share of an op's working cycles in regions that only steer: no vector work."""
    idle = sum(r.cycles - r.stall_cycles for r in op.regions if not works(r))
    return idle / max(1.0, op.cycles - op.stall_cycles)


def _idle(op: OpTime) -> float:
    """Share of an op's working cycles that issue nothing."""
    return sum(r.idle_cycles for r in op.regions) / max(1.0, op.cycles - op.stall_cycles)
