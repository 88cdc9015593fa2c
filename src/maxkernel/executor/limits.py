"""How long a request may take, at most, from the moment that a worker is asked."""

from __future__ import annotations

from maxkernel.config import Settings
from maxkernel.executor.pool import STARTUP_SECONDS
from maxkernel.types.messages import (
    CandidateRequest,
    CompileRequest,
    MeasureRequest,
    Request,
    TraceRequest,
)

MEASURE_SECONDS = 900.0
"""To draw full-size inputs for every repetition on a host's CPU, and to run them."""

LEASE_FACTOR = 3.0
"""Of a request's own limit: a host queues a few requests per worker."""


def lease_seconds(settings: Settings, request: Request) -> float:
    """Seconds after which a host that holds a request is taken to be lost."""
    if isinstance(request, CandidateRequest):
        own = request.seconds
    elif isinstance(request, CompileRequest):
        own = request.seconds or settings.compile_seconds
    elif isinstance(request, TraceRequest):
        own = settings.trace_seconds
    elif isinstance(request, MeasureRequest):
        own = MEASURE_SECONDS
    else:
        own = settings.check_seconds
    return LEASE_FACTOR * own + STARTUP_SECONDS
