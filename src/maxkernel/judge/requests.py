"""What the workers are asked about a candidate."""

from __future__ import annotations

import secrets

from maxkernel.config import Settings
from maxkernel.judge.prepared import Prepared
from maxkernel.types import Artifact, Candidate
from maxkernel.types.messages import CaptureRequest, CheckRequest, SpotRequest

SPOT_MEMORY_SHARE = 0.6
"""Of a worker's memory that a full-size spot check may plan with."""


def secret_seed() -> int:
    """A seed that nobody can know beforehand."""
    return secrets.randbits(31)


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


def check_request(
    prepared: Prepared, artifact: Artifact, *, thorough: bool = False, seed: int | None = None
) -> CheckRequest:
    """A check on a secret seed, or on the one of a check that is repeated."""
    return CheckRequest(
        prepared.task,
        artifact.tpu,
        artifact.check,
        secret_seed() if seed is None else seed,
        prepared.info.tolerance,
        thorough,
    )


def spot_request(
    prepared: Prepared, artifact: Artifact, blocks: int, settings: Settings
) -> SpotRequest:
    """A spot check of that many random output blocks on a secret seed."""
    memory = int(SPOT_MEMORY_SHARE * (settings.worker_memory_mb << 20))
    return SpotRequest(
        prepared.task, artifact.tpu, secret_seed(), prepared.info.tolerance, blocks, memory
    )
