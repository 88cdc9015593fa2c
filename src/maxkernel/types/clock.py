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


class RegionTime(msgspec.Struct, frozen=True):
    """A stretch of an op's compiled program whose bundles run equally often.

    `bundles` is its first and last bundle; a region at `depth` 0 stands outside every loop.
    """

    name: str
    bundles: tuple[int, int]
    depth: int
    executions: int
    cycles: float
    """All executions, stalls included."""
    stall_cycles: float
    units: dict[str, int] = {}


class CopyTime(msgspec.Struct, frozen=True):
    """One DMA instruction of an op, over all its executions."""

    name: str
    """What it copies: `input 0 bf16[256,8192]`, `output 2 ...`, or the memories it joins."""
    source: str
    destination: str
    count: int
    bytes: float
    pieces: int
    """Runs that its descriptor has it move at a time, all executions."""
    stall_cycles: float
    """Cycles that the program waited for it."""


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
    """Issued instructions by unit (mxu, xlu, valu, eup, load, store, scalar, pop; matmul and spill
    count a part of mxu, and of load and store, again), all executions."""
    hlo: str = ""
    bundles: int = 0
    """Length of its compiled program."""
    needed_bytes: float = 0.0
    """Its operands and results in HBM, each once: what it has to move at least."""
    regions: tuple[RegionTime, ...] = ()
    copies: tuple[CopyTime, ...] = ()


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
