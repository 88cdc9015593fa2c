"""What the workers are asked about a candidate."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import msgspec

from maxkernel.config import Settings
from maxkernel.judge.cache import stage_key
from maxkernel.judge.inputs import Inputs
from maxkernel.judge.prepared import Prepared
from maxkernel.targets import Target
from maxkernel.types import Artifact, Calibration, Candidate, Task, Tunable
from maxkernel.types.messages import (
    CaptureRequest,
    CheckRequest,
    CompileRequest,
    OutlineRequest,
    SpotRequest,
)

SPOT_MEMORY_SHARE = 0.6
"""Of a worker's memory that a full-size spot check may plan with."""

TIMING_SEEDS = (1, 2, 3)
"""Seeds of the full-size inputs that a time is simulated for where it depends on data. They are no
secret: baseline and candidate are timed on the same draws, on every machine."""


def capture_request(prepared: Prepared, candidate: Candidate, settings: Settings) -> CaptureRequest:
    """Shapes and scalars only: no values, seeds or tolerances reach the candidate's process."""
    info = prepared.info
    return CaptureRequest(
        source=candidate.source,
        tunables=candidate.tunables,
        target=prepared.target.name,
        inputs=info.inputs,
        check_inputs=info.check_inputs,
        statics=info.statics,
        check_statics=info.check_statics,
        seconds=settings.capture_seconds,
        memory_bytes=settings.capture_memory_mb << 20,
    )


def capture_key(prepared: Prepared, candidate: Candidate, versions: dict[str, str]) -> str:
    """The cache key of a capture."""
    task, target = prepared.task.digest, prepared.target.name
    return stage_key("capture", candidate.digest, task, target, versions)


def outline_request(
    prepared: Prepared,
    source: str,
    assignments: Sequence[Mapping[str, Tunable]],
    settings: Settings,
) -> OutlineRequest:
    """As a capture, but for many assignments and without a program."""
    return OutlineRequest(
        source=source,
        assignments=tuple(dict(one) for one in assignments),
        target=prepared.target.name,
        inputs=prepared.info.inputs,
        statics=prepared.info.statics,
        seconds=settings.capture_seconds,
        memory_bytes=settings.capture_memory_mb << 20,
    )


def compile_request(
    task: Task,
    program: bytes,
    target: Target,
    seconds: float | None = None,
    calibration: Calibration | None = None,
) -> CompileRequest:
    """A compile for the target, timed on the task's inputs of the published seeds."""
    return CompileRequest(
        program,
        target.name,
        seconds=seconds,
        task=task,
        seeds=TIMING_SEEDS,
        calibration=calibration,
    )


def compile_key(request: CompileRequest, task: Task, versions: dict[str, str]) -> str:
    """The cache key of a compile. The user's calibration is part of it, if there is one."""
    digest = hashlib.sha256(request.program).hexdigest()
    parts = (digest, request.target, versions, task.digest, request.seeds)
    if request.calibration is None:
        return stage_key("compile", *parts)
    return stage_key("compile", *parts, msgspec.to_builtins(request.calibration))


def check_request(
    prepared: Prepared, artifact: Artifact, inputs: Inputs, *, thorough: bool = False
) -> CheckRequest:
    """A check on these inputs; a `thorough` one looks for hazards too."""
    return CheckRequest(
        prepared.task,
        artifact.tpu,
        artifact.check,
        inputs.seed,
        prepared.info.tolerance,
        thorough,
        inputs.distributions,
        inputs.cases,
    )


def spot_request(
    prepared: Prepared, artifact: Artifact, blocks: int, seed: int, settings: Settings
) -> SpotRequest:
    """A spot check of that many random output blocks."""
    memory = int(SPOT_MEMORY_SHARE * (settings.worker_memory_mb << 20))
    return SpotRequest(prepared.task, artifact.tpu, seed, prepared.info.tolerance, blocks, memory)
