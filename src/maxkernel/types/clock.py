"""Times, and where they come from."""

from __future__ import annotations

from typing import Literal

import msgspec

Provenance = Literal["measured", "simulated", "bound"]


class Time(msgspec.Struct, frozen=True):
    """Seconds with a provenance. Two times are compared only within one provenance."""

    seconds: float
    provenance: Provenance
    expected_error: float | None = None
    """Expected relative error (0.05 = 5 %); None where nothing is known."""


class OpTime(msgspec.Struct, frozen=True):
    """One top-level operation of a compiled program, over all its executions."""

    name: str
    kind: Literal["kernel", "xla", "glue"]
    """`kernel`: a Pallas kernel; `xla`: a fusion, copy or library op; `glue`: program overhead."""
    calls: int
    seconds: float
    cycles: float
    """All cycles, stalls included."""
    stall_cycles: float
    """Cycles spent waiting for DMAs."""
    read_bytes: float = 0.0
    write_bytes: float = 0.0
    """HBM traffic of its DMAs."""
    units: dict[str, int] = {}
    """Issued instructions by unit (mxu, xlu, valu, eup, load, store, scalar), all executions."""
    hlo: str = ""


class ProgramTime(msgspec.Struct, frozen=True):
    """The simulated execution of a compiled program."""

    target: str
    seconds: float
    cycles: float
    ops: tuple[OpTime, ...]
    clock_hz: float
    assumptions: tuple[str, ...] = ()
    """What the executor had to assume, in words (unknown values, unmatched waits ...)."""
    unknown: dict[str, int] = {}
    """Instruction names that the parser does not know, with counts."""
    compiler: str = ""
