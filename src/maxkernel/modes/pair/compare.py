"""Two designs side by side: the figures that differ, and the difference of their sources."""

from __future__ import annotations

import difflib
import math

import msgspec

from maxkernel.judge import Prepared
from maxkernel.modes.pair.facts import best_of, find_design, speedup
from maxkernel.store import RunFile
from maxkernel.types import Design, Evaluation


class Row(msgspec.Struct, frozen=True):
    """One figure of both designs, in words."""

    name: str
    a: str
    b: str
    better: str = ""
    """`a` or `b` where one is better, else empty."""


class Comparison(msgspec.Struct, frozen=True):
    """What tells two designs apart, each at its best constants."""

    a: int
    b: int
    rows: tuple[Row, ...]
    diff: tuple[str, ...]
    """Unified diff of the sources, without line ends; empty when they are equal."""


def compare(run: RunFile, prepared: Prepared | None, a: int, b: int) -> Comparison:
    """Compares designs `a` and `b`; raises UsageError when one does not exist."""
    designs = find_design(run, a), find_design(run, b)
    sides = [_side(design, best_of(run, design.id), prepared) for design in designs]
    rows = tuple(
        Row(name, sides[0][name][0], sides[1][name][0], _better(sides[0][name], sides[1][name]))
        for name in sides[0]
    )
    return Comparison(a, b, rows, source_diff(designs[0], designs[1]))


def source_diff(old: Design, new: Design) -> tuple[str, ...]:
    """Unified diff from one design's source to another's."""
    return tuple(
        difflib.unified_diff(
            old.source.splitlines(),
            new.source.splitlines(),
            f"design {old.id}",
            f"design {new.id}",
            lineterm="",
        )
    )


_Figure = tuple[str, float | None]
"""What to show, and the number by which less is better; None where nothing is."""


def _side(
    design: Design, evaluation: Evaluation | None, prepared: Prepared | None
) -> dict[str, _Figure]:
    side: dict[str, _Figure] = {
        "plan": (f"{design.plan.family}: {design.plan.strategy}", None),
        "how": (design.move, None),
        "verdict": (verdict_word(evaluation), None),
        "constants": ("-", None),
        "time": ("-", None),
        "speedup": ("-", None),
        "of the roofline": ("-", None),
        "largest error": ("-", None),
        "grid steps": ("-", None),
        "VMEM": ("-", None),
        "HBM traffic": ("-", None),
        "waits for HBM": ("-", None),
    }
    if evaluation is None:
        return side
    constants = ", ".join(f"{k}={v}" for k, v in evaluation.candidate.tunables.items())
    side["constants"] = (constants or "defaults", None)
    side |= _times(evaluation, prepared) | _facts(evaluation)
    if evaluation.numerics is not None:
        worst = max((o.max_abs for o in evaluation.numerics.outputs), default=0.0)
        side["largest error"] = (f"{worst:.3g}", worst)
    return side


def _times(evaluation: Evaluation, prepared: Prepared | None) -> dict[str, _Figure]:
    time = evaluation.time
    if time is None:
        return {}
    if not evaluation.accepted:
        return {"time": (f"{time.seconds * 1e6:.4g} us, but it is refused", None)}
    found: dict[str, _Figure] = {
        "time": (f"{time.seconds * 1e6:.4g} us {time.provenance}", time.seconds)
    }
    ratio = speedup(prepared, evaluation)
    if ratio is not None:
        found["speedup"] = (f"{ratio:.3f}x", -ratio)
    if prepared is not None:
        fraction = prepared.bound.time.seconds / time.seconds
        found["of the roofline"] = (f"{fraction:.1%}", -fraction)
    return found


def _facts(evaluation: Evaluation) -> dict[str, _Figure]:
    found: dict[str, _Figure] = {}
    calls = evaluation.facts.pallas_calls if evaluation.facts else ()
    if calls:
        steps = sum(math.prod(max(1, n) for n in call.grid) for call in calls)
        vmem = max(2 * call.block_bytes + call.scratch_bytes for call in calls)
        found["grid steps"] = (str(steps), None)
        found["VMEM"] = (f"{vmem / 1e6:.3g} MB", None)
    program = evaluation.program
    if program is not None and program.cycles:
        moved = sum(op.read_bytes + op.write_bytes for op in program.ops)
        stalled = sum(op.stall_cycles for op in program.ops) / program.cycles
        found["HBM traffic"] = (f"{moved / 1e6:.4g} MB", moved)
        found["waits for HBM"] = (f"{stalled:.0%} of its cycles", stalled)
    return found


def _better(a: _Figure, b: _Figure) -> str:
    if a[1] is None or b[1] is None or a[0] == b[0]:
        return ""
    return "a" if a[1] < b[1] else "b"


def verdict_word(evaluation: Evaluation | None) -> str:
    """`accepted`, `refused, stage/kind`, or `not judged`."""
    if evaluation is None:
        return "not judged"
    failure = evaluation.failure
    return f"refused, {failure.stage}/{failure.kind}" if failure else "accepted"
