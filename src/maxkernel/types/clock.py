"""Times, and where they come from."""

from __future__ import annotations

from typing import Literal

import msgspec

Provenance = Literal["measured", "simulated", "bound"]


class Clock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Constants of one jax device. `measured` says whether published rows stand behind them."""

    hz: float
    bandwidth: float
    """Effective HBM bandwidth of the device, bytes a second, reads and writes together."""
    latency: float
    """Seconds from the issue of a DMA to its completion, besides the transfer."""
    chunk_bytes: float
    """Cost of each run of a DMA (a row of tiles, say), in bytes of transfer."""
    measured: bool
    granule: int = 32
    """Bytes of a granule, the unit of DMA sizes and strides."""
    burst_bytes: float = 0.0
    """Bytes of HBM traffic in one execution after which `sustained` holds; 0: never."""
    sustained: float = 1.0
    """Share of `bandwidth` that is left then."""
    write_latency: float = 1.0
    """Share of `latency` after which a DMA to HBM is complete."""


class Calibration(msgspec.Struct, frozen=True):
    """What a user's calibration file means for a simulated time."""

    note: str
    """Which constants are used and why, for people."""
    clock: Clock | None = None
    """The measured constants; None: the file is not used, `note` says why."""
    error: float = 0.0
    """Expected relative error of the constants on microkernels; 0 where none are used."""


class Draw(msgspec.Struct, frozen=True):
    """The time of a program on the task's inputs of one seed."""

    seed: int
    seconds: float


class Time(msgspec.Struct, frozen=True):
    """Seconds with a provenance. Two times are compared only within one provenance."""

    seconds: float
    provenance: Provenance
    expected_error: float | None = None
    """Expected relative error (0.05 = 5 %); None where nothing is known."""
    draws: tuple[Draw, ...] = ()
    """Where it depends on data: the times whose mean this is, by seed."""


class LineTime(msgspec.Struct, frozen=True):
    """A line of the kernel's source, over all executions of what was compiled from it."""

    file: str
    line: int
    cycles: float
    """Cycles in which its instructions issue or are waited for; a shared cycle is split."""
    stall_cycles: float = 0.0
    """Cycles that a wait on this line waited for DMAs."""
    units: dict[str, int] = {}


RegionKind = Literal["", "setup", "control", "step", "branch", "loop", "wait"]
"""`setup` stands outside the loop over the grid, `control` only steers it, `wait` mostly waits in
every step, `step` works in every step, `branch` in some (`pl.when`), `loop` repeats in a step."""


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
    idle_cycles: float = 0.0
    """Cycles that issue nothing: results of earlier instructions are awaited."""
    kind: RegionKind = ""
    waits: dict[str, float] = {}
    """Stall cycles by the name of the copy that ended them."""
    file: str = ""
    lines: tuple[int, int] = (0, 0)
    """First and last source line of its instructions; zeros where the compiler names none."""
    hot_line: int = 0
    """The line with most of its cycles."""
    live_registers: int = 0
    """Most vector registers in use at once; 0 for XLA's own ops."""


class CopyTime(msgspec.Struct, frozen=True):
    """One DMA instruction of an op, over all its executions."""

    name: str
    """What it copies: `input 0 bf16[256,8192]`, `output 0 ...`, or the memories it joins."""
    source: str
    destination: str
    count: int
    bytes: float
    pieces: int
    """Runs that its descriptor has it move at a time, all executions."""
    stall_cycles: float
    """Cycles that the program waited for it."""
    whole_bytes: float = 0.0
    """Size of the whole operand that it copies from or to, in HBM; 0 where that is not known."""


class BufferUse(msgspec.Struct, frozen=True):
    """An allocation in VMEM, for as long as an op runs."""

    name: str
    """`input 0 bf16[256,8192]`, `scratch`, `register spills` ..."""
    bytes: int
    copies: int = 1
    """Buffers of a pipelined block; `bytes` counts all of them."""


class TraceEvent(msgspec.Struct, frozen=True):
    """Something that took time in the steady state of a kernel, in cycles from the first event."""

    kind: Literal["in", "out", "copy", "wait"]
    """DMA from HBM, to HBM, or inside the chip; or the program waiting for one."""
    name: str
    start: float
    end: float


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
    lines: tuple[LineTime, ...] = ()
    """Source lines that took longest, in order of the source; of kernels only."""
    buffers: tuple[BufferUse, ...] = ()
    """VMEM that it has for itself while it runs."""
    trace: tuple[TraceEvent, ...] = ()
    """DMAs and waits of a few steps in the middle of its run."""


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
    vmem_bytes: int = 0
    """Size of a core's VMEM; 0 where the compiler did not say."""
    compiler: str = ""
    calibration: Calibration | None = None
    """Where the constants come from, when a calibration file was found."""
    draws: tuple[Draw, ...] = ()
    """Where the time depends on data: the time for each seed. The rest is of the one nearest to
    their mean."""

    @property
    def mean_seconds(self) -> float:
        """The mean over the seeds where data matters, else `seconds`."""
        found = [draw.seconds for draw in self.draws]
        return sum(found) / len(found) if found else self.seconds
