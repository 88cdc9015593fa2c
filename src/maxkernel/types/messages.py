"""Requests to workers and their replies: one msgpack frame each way.

A frame is a big-endian 32-bit length and a msgpack body. Replies from the capture worker are
parsed as hostile: sizes are limited before decoding and every field is checked by type.
"""

from __future__ import annotations

import msgspec

from maxkernel.types.artifact import Artifact, ArtifactFacts
from maxkernel.types.clock import Calibration, Clock, ProgramTime
from maxkernel.types.evaluation import Distribution, Failure, Numerics, Spot
from maxkernel.types.lint import LintResult
from maxkernel.types.measure import Samples
from maxkernel.types.search import InputCase
from maxkernel.types.task import ArraySpec, Static, Task, TaskInfo, Tolerance

FRAME_LIMIT = 1 << 30
"""Largest frame from trusted workers, bytes."""
CAPTURE_FRAME_LIMIT = 64 << 20
"""Largest frame that a capture may answer with, bytes."""


class TraceRequest(msgspec.Struct, frozen=True, tag="trace"):
    """Import a task, describe it, export its reference for the TPU."""

    task: Task
    target: str
    check_limit_bytes: int
    """Largest working set for which the full size doubles as check size."""


class TraceReply(msgspec.Struct, frozen=True, tag="traced"):
    info: TaskInfo


class CaptureRequest(msgspec.Struct, frozen=True, tag="capture"):
    """Trace a candidate at both sizes and export the two programs."""

    source: str
    tunables: dict[str, int | float | bool | str]
    target: str
    inputs: tuple[ArraySpec, ...]
    check_inputs: tuple[ArraySpec, ...]
    statics: dict[int, Static]
    check_statics: dict[int, Static]
    seconds: float
    memory_bytes: int


class CaptureReply(msgspec.Struct, frozen=True, tag="captured"):
    artifact: Artifact
    output: str = ""
    """Last bytes of what the candidate printed."""


class OutlineRequest(msgspec.Struct, frozen=True, tag="outline"):
    """Trace one source with several assignments at full size: what ranking looks at, no program."""

    source: str
    assignments: tuple[dict[str, int | float | bool | str], ...]
    target: str
    inputs: tuple[ArraySpec, ...]
    statics: dict[int, Static]
    seconds: float
    """For all of them: what comes too late is left out of the reply."""
    memory_bytes: int


class Outline(msgspec.Struct, frozen=True):
    """What a trace tells of a program. A forged one costs its author's own search, nothing else."""

    digest: str = ""
    """Of the traced program's text: equal where the artifacts are."""
    facts: ArtifactFacts | None = None
    failure: Failure | None = None
    """Why there are no facts."""


class OutlineReply(msgspec.Struct, frozen=True, tag="outlined"):
    outlines: tuple[Outline, ...]
    """Of the first assignments, at least one."""


CandidateRequest = CaptureRequest | OutlineRequest
"""What runs a candidate's source, in a sandboxed process of its own."""


class CompileRequest(msgspec.Struct, frozen=True, tag="compile"):
    """Compile an exported program for a target and simulate its schedule."""

    program: bytes
    target: str
    seconds: float | None = None
    """How long this program may take; None: what the settings say."""
    task: Task | None = None
    """Whose full-size inputs steer the program, where its time depends on data."""
    seeds: tuple[int, ...] = ()
    """Seeds of those inputs; the time is simulated for each."""
    calibration: Calibration | None = None
    """Constants of the clock from the user's calibration file; None: the published ones."""
    probes: tuple[Clock, ...] = ()
    """Simulate also with each of these constants."""


class CompileReply(msgspec.Struct, frozen=True, tag="compiled"):
    program: ProgramTime | None
    """None when the schedule could not be read: see `schedule_problem`."""
    memory: dict[str, int]
    compile_seconds: float
    simulate_seconds: float
    compiler: str
    """jax and libtpu versions."""
    schedule_problem: str = ""
    data_seconds: float = 0.0
    """Spent on what the program's time depends on in its inputs."""
    probed: tuple[float, ...] = ()
    """Simulated seconds with each of the request's `probes`; empty where no schedule was read."""


class CheckRequest(msgspec.Struct, frozen=True, tag="check"):
    """Execute the check-size TPU program on fresh inputs and compare it with the oracle."""

    task: Task
    full: bytes
    """The full-size program: facts are read from it, and it must be the same up to sizes."""
    check: bytes
    seed: int
    tolerance: Tolerance
    thorough: bool = False
    """Also run with other poison, DMA timing and order of parallel steps."""
    distributions: tuple[Distribution, ...] = ()
    """Also check on these, each made from the draw of `seed`."""
    cases: tuple[InputCase, ...] = ()
    """Also check on these; what the reference itself cannot do is skipped, in words."""


class CheckReply(msgspec.Struct, frozen=True, tag="checked"):
    numerics: Numerics
    facts: ArtifactFacts
    """Read from the programs themselves, in a process that never saw the candidate."""
    hazard_runs: int = 0


class SpotRequest(msgspec.Struct, frozen=True, tag="spot"):
    """Compute some output blocks of the full-size program and compare them with the oracle."""

    task: Task
    full: bytes
    seed: int
    tolerance: Tolerance
    blocks: int
    memory_bytes: int
    """What the worker may use; a larger task is skipped, in words."""


class SpotReply(msgspec.Struct, frozen=True, tag="spotted"):
    spot: Spot


class OracleRequest(msgspec.Struct, frozen=True, tag="oracle"):
    """Inputs of one seed at check size, the reference's outputs and the oracle's."""

    task: Task
    seed: int


class Array(msgspec.Struct, frozen=True):
    """An array in row-major order, little-endian."""

    spec: ArraySpec
    data: bytes


class OracleReply(msgspec.Struct, frozen=True, tag="oracle_values"):
    inputs: tuple[Array, ...]
    reference: tuple[Array, ...]
    oracle: tuple[Array, ...]
    precision: str


class LintRequest(msgspec.Struct, frozen=True, tag="lint"):
    """Try to pass a task's check without doing its work."""

    task: Task
    tolerance: Tolerance
    seed: int


class LintReply(msgspec.Struct, frozen=True, tag="linted"):
    result: LintResult


class FailureReply(msgspec.Struct, frozen=True, tag="failed"):
    failure: Failure


class PingRequest(msgspec.Struct, frozen=True, tag="ping"):
    """Ask a worker for its versions; also warms it up."""


class PingReply(msgspec.Struct, frozen=True, tag="pong"):
    versions: dict[str, str]


class DeviceRequest(msgspec.Struct, frozen=True, tag="device"):
    """Ask which TPU answers on the worker's machine."""


class DeviceReply(msgspec.Struct, frozen=True, tag="device_found"):
    kind: str
    """As jax calls it: `TPU v6 lite`."""
    count: int


class MeasureRequest(msgspec.Struct, frozen=True, tag="measure"):
    """Run full-size programs on the TPU, in turn, on the same fresh inputs each repetition."""

    task: Task
    programs: tuple[bytes, ...]
    """Exported programs, as they are compiled for the simulated clock."""
    target: str
    seeds: tuple[int, ...]
    """One repetition each."""
    warm_ups: int = 3


class MeasureReply(msgspec.Struct, frozen=True, tag="measured"):
    samples: tuple[Samples, ...]
    """In the order of the programs."""
    dispatch: tuple[float, ...]
    """Wall seconds of a call that does next to nothing."""
    device: str
    compiler: str


Request = (
    TraceRequest
    | CaptureRequest
    | OutlineRequest
    | CompileRequest
    | CheckRequest
    | SpotRequest
    | OracleRequest
    | LintRequest
    | MeasureRequest
    | DeviceRequest
    | PingRequest
)
Reply = (
    TraceReply
    | CaptureReply
    | OutlineReply
    | CompileReply
    | CheckReply
    | SpotReply
    | OracleReply
    | LintReply
    | MeasureReply
    | DeviceReply
    | FailureReply
    | PingReply
)
