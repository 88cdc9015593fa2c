"""The request loop of the compile, check and measure workers."""

from __future__ import annotations

import contextlib
import importlib.metadata
import traceback
from collections.abc import Callable
from typing import Any

import msgspec

from maxkernel.types.evaluation import Failure
from maxkernel.types.messages import (
    FRAME_LIMIT,
    CheckRequest,
    CompileRequest,
    DeviceRequest,
    FailureReply,
    LintRequest,
    MeasureRequest,
    OracleRequest,
    PingReply,
    PingRequest,
    Reply,
    Request,
    SpotRequest,
    TraceReply,
    TraceRequest,
)
from maxkernel.worker import environment
from maxkernel.worker.failures import Refused
from maxkernel.worker.framing import read_frame, write_frame

Handler = Callable[[Any], Reply]


def serve_trusted(kind: str, requests: int, replies: int) -> None:
    """Answers every request of `kind` in turn; returns when the pipe closes."""
    handlers = _HANDLERS[kind]()
    decoder = msgspec.msgpack.Decoder(Request)
    encoder = msgspec.msgpack.Encoder()
    while (body := read_frame(requests, FRAME_LIMIT)) is not None:
        request = decoder.decode(body)
        reply = _answer(handlers, request)
        write_frame(replies, encoder.encode(reply))
        if isinstance(request, TraceRequest) and isinstance(reply, TraceReply):
            _look_ahead(request)
        environment.bound_log()


def _look_ahead(request: TraceRequest) -> None:
    """Compiles reference and oracle while the baseline compiles elsewhere: a check comes next.

    What goes wrong here goes wrong again, and is reported, when the check asks for it.
    """
    from maxkernel.worker.reference import prepare

    with contextlib.suppress(Exception):
        prepare(request.task)


def versions() -> dict[str, str]:
    """Versions of the packages that decide what a compiled program is."""
    return {name: importlib.metadata.version(name) for name in ("jax", "jaxlib", "libtpu")}


def _answer(handlers: dict[type, Handler], request: Request) -> Reply:
    handler = handlers.get(type(request))
    try:
        if handler is None:
            raise TypeError(f"this worker does not answer {type(request).__name__}")
        return handler(request)
    except Refused as refused:
        return FailureReply(refused.failure)
    except Exception as error:
        return FailureReply(
            Failure(
                "check",
                "environment",
                f"the worker failed on {type(request).__name__}: {type(error).__name__}: {error}",
                "this is a fault of maxkernel, not of the candidate: please report it",
                _traceback(error),
            )
        )


def _traceback(error: Exception) -> str:
    return "".join(traceback.format_exception(error))[-4000:]


def _compile_handlers() -> dict[type, Handler]:
    from maxkernel.worker.compile import compile_program, warm_up

    def ping(request: PingRequest) -> Reply:
        warm_up()
        return PingReply(versions())

    return {CompileRequest: compile_program, PingRequest: ping}


def _check_handlers() -> dict[type, Handler]:
    from maxkernel.worker.check import check_program, oracle_values, warm_up
    from maxkernel.worker.lint import lint_task
    from maxkernel.worker.spot import spot_check_program
    from maxkernel.worker.trace import trace_task

    def ping(request: PingRequest) -> Reply:
        warm_up()
        return PingReply(versions())

    return {
        TraceRequest: trace_task,
        CheckRequest: check_program,
        OracleRequest: oracle_values,
        LintRequest: lint_task,
        SpotRequest: spot_check_program,
        PingRequest: ping,
    }


def _measure_handlers() -> dict[type, Handler]:
    from maxkernel.worker.measure import find_device, measure_programs

    return {DeviceRequest: find_device, MeasureRequest: measure_programs}


_HANDLERS: dict[str, Callable[[], dict[type, Handler]]] = {
    "compile": _compile_handlers,
    "check": _check_handlers,
    "measure": _measure_handlers,
}
