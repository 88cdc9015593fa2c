"""How far a simulated time may be off, from the residuals on published rows (docs/fidelity.md)."""

from __future__ import annotations

from maxkernel.schedule.constants import clock_behind
from maxkernel.types import ProgramTime

_BASE = {"v5e": 0.015, "v5p": 0.015, "v6e": 0.03, "v7x": 0.03}
"""Typical relative error of Pallas programs that hardly wait for memory."""
_XLA = 0.045
"""Added in proportion to the share of XLA's own ops: its layouts and compiler version vary more."""
_STALL = 0.06
"""Added in proportion to the share of cycles spent waiting for DMAs."""
_UNMEASURED = 0.15
"""Base for a target without published measurements."""
_ASSUMED = 0.25
"""Added where values that steer an op had to be assumed."""
_HIDDEN = 0.5
"""Added where part of the work is not simulated at all."""


def expected_error(program: ProgramTime) -> float:
    """Expected relative error of `program.seconds` (0.05 = 5 %)."""
    cycles = max(program.cycles, 1.0)
    waited = min(1.0, sum(op.stall_cycles for op in program.ops) / cycles)
    outside = min(1.0, sum(op.cycles for op in program.ops if op.kind == "xla") / cycles)
    clock = clock_behind(program)
    base = _BASE.get(program.target, _UNMEASURED)
    error = base if clock and clock.measured else _UNMEASURED
    if program.calibration:
        error = max(error, program.calibration.error)
    error += _XLA * outside + _STALL * waited
    if unsure(program):
        error += _ASSUMED
    if any("not timed" in note for note in program.assumptions):
        error += _HIDDEN
    return error


def unsure(program: ProgramTime) -> str:
    """Why the time may be wrong by any factor; empty where nothing steering was assumed.

    Tables of XLA's own gathers only give addresses, so zeros in them cost nothing; tables and
    operands of kernels and of ragged products give trip counts.
    """
    kinds = {op.name: op.kind for op in program.ops}
    for note in program.assumptions:
        scope = note.partition(":")[0]
        addresses = kinds.get(scope) == "xla" and "ragged" not in scope
        if _steers(note) and not ("a table in scalar memory" in note and addresses):
            return note
    return ""


def _steers(note: str) -> bool:
    return any(words in note for words in ("depends on data", "is unknown", "no matching copy"))
