"""From a worker's fault to a failure in words."""

from __future__ import annotations

from maxkernel.executor.process import WorkerFault
from maxkernel.types import Failure, FailureKind, Stage
from maxkernel.types.messages import (
    CaptureRequest,
    CheckRequest,
    CompileRequest,
    DeviceRequest,
    LintRequest,
    MeasureRequest,
    OracleRequest,
    OutlineRequest,
    Request,
    SpotRequest,
    TraceRequest,
)

_STAGES: dict[type, Stage] = {
    TraceRequest: "trace",
    CaptureRequest: "capture",
    OutlineRequest: "capture",
    CompileRequest: "compile",
    CheckRequest: "check",
    LintRequest: "check",
    SpotRequest: "check",
    OracleRequest: "check",
    MeasureRequest: "time",
    DeviceRequest: "time",
}

_ADVICE: dict[FailureKind, str] = {
    "timeout": "simplify the program, or raise the limit (capture_seconds, compile_seconds,"
    " check_seconds, trace_seconds in the settings)",
    "memory": "use smaller check inputs, or raise worker_memory_mb in the settings",
    "compile_crash": "some illegal programs make the compiler abort: change block shapes,"
    " layouts or the operations that the lines name",
    "crash": "the program makes its process die: look for out-of-range indices or huge arrays",
}


def stage_of(request: Request) -> Stage:
    """The stage that a request belongs to."""
    return _STAGES.get(type(request), "trace")


def fault_failure(request: Request, fault: WorkerFault, started: bool) -> Failure:
    """The failure of a request whose worker gave no usable reply.

    `started` tells that this worker had answered before; one that never did and died by itself
    is a fault of the machine.
    """
    stage = stage_of(request)
    kind: FailureKind
    if fault.kind in ("timeout", "memory"):
        kind = fault.kind
    elif fault.kind == "died" and not started and "Error" in fault.log.rsplit("\n", 1)[-1]:
        kind = "environment"
    else:
        kind = "compile_crash" if stage == "compile" else "crash"
    return Failure(
        stage=stage,
        kind=kind,
        message=f"the {stage} worker gave no reply: {fault}",
        advice=_ADVICE.get(kind, "run `maxkernel doctor`; it shows what the workers lack"),
        detail=fault.log,
    )


def garbled_failure(request: Request, error: Exception) -> Failure:
    """The failure of a request whose reply is not what the wire format says."""
    return Failure(
        stage_of(request),
        "crash",
        f"the {stage_of(request)} worker's reply does not decode: {error}",
        "a candidate must not write to the worker's pipes",
    )


def start_failure(request: Request, error: Exception) -> Failure:
    """The failure of a request for which no worker could be started or ended."""
    return Failure(
        stage_of(request),
        "environment",
        f"a worker cannot be started: {error}",
        "run `maxkernel doctor`; it shows what the workers lack",
    )


def closed_failure(request: Request) -> Failure:
    """The failure of a request that the executor's end overtook."""
    return Failure(stage_of(request), "environment", "the workers were closed before they answered")
