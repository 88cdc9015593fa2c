"""A pool of warm workers on this machine: some of each kind, started when they are needed."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
from concurrent.futures import Future
from pathlib import Path
from typing import Literal

import msgspec

from maxkernel.config import Settings
from maxkernel.executor.devices import tpu_device_files
from maxkernel.executor.faults import closed_failure
from maxkernel.executor.hostile import HostileDecoder
from maxkernel.executor.interpreter import PACKAGE, environment, probe
from maxkernel.executor.limits import MEASURE_SECONDS
from maxkernel.executor.pool import Decoder, Limits, Pool
from maxkernel.executor.process import WorkerProcess
from maxkernel.executor.stale import PREFIX, remove_stale
from maxkernel.sandbox import Job, Sandbox, detect
from maxkernel.types.messages import (
    CAPTURE_FRAME_LIMIT,
    FRAME_LIMIT,
    CandidateRequest,
    CompileRequest,
    DeviceRequest,
    FailureReply,
    MeasureRequest,
    PingRequest,
    Reply,
    Request,
    TraceRequest,
)

Kind = Literal["capture", "compile", "check", "measure"]

DEVICE_SECONDS = 30.0
"""How long a worker may look for a TPU, beside its start."""

GRACE_SECONDS = 5.0
"""Added to a capture's own limit, which the capture worker itself enforces."""

_TPU_VARIABLES = ("TPU_ACCELERATOR_TYPE", "TPU_TOPOLOGY", "TPU_LIBRARY_PATH")
"""Of the user's environment, what a worker that measures is told: it cannot ask the cloud."""

CAPTURE_SLACK_BYTES = 2 << 30
"""What the capture worker may hold beside the candidate's process."""


def local_executor(settings: Settings, allow_no_sandbox: bool = False) -> LocalExecutor:
    """Workers on this machine, in the best sandbox that works here.

    Raises EnvironmentFault when there is none (unless `allow_no_sandbox`) or when the workers'
    interpreter cannot be run.
    """
    return LocalExecutor(settings, detect(allow_no_sandbox))


class LocalExecutor:
    """Implements Executor with `settings.workers` compile workers and one of each other kind.

    The one that measures is started by its first request alone.
    """

    def __init__(self, settings: Settings, sandbox: Sandbox) -> None:
        self._settings = settings
        self._sandbox = sandbox
        self._interpreter = probe(settings.python)
        remove_stale()
        self._root = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
        self._library = self._root / "library"
        self._library.mkdir()
        (self._library / PACKAGE.name).symlink_to(PACKAGE)
        trusted = msgspec.msgpack.Decoder(Reply)
        self._pools: dict[Kind, Pool] = {
            "capture": self._pool("capture", 1, HostileDecoder()),
            "compile": self._pool("compile", settings.workers, trusted),
            "check": self._pool("check", 1, trusted),
            "measure": self._pool("measure", 1, trusted),
        }
        self._closed = False
        atexit.register(self.close)

    @property
    def sandbox(self) -> str:
        """Level of isolation of the workers."""
        return self._sandbox.level

    @property
    def pids(self) -> list[int]:
        """Process ids of the live workers on the host."""
        return [pid for pool in self._pools.values() for pid in pool.pids]

    def submit(self, request: Request) -> Future[Reply]:
        """See Executor.submit. A ping goes to a compile worker."""
        return self._submit(_kind_of(request), request)

    def warm(self) -> list[Future[Reply]]:
        """Starts one worker of each kind that judges, in the background: futures of their pings."""
        return [self._submit(kind, PingRequest()) for kind in self._pools if kind != "measure"]

    def close(self) -> None:
        """See Executor.close. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        atexit.unregister(self.close)
        for pool in self._pools.values():
            pool.stop()
        for pool in self._pools.values():
            pool.join()
        shutil.rmtree(self._root, ignore_errors=True)

    def __enter__(self) -> LocalExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _submit(self, kind: Kind, request: Request) -> Future[Reply]:
        future: Future[Reply] = Future()
        if self._closed:
            future.set_result(FailureReply(closed_failure(request)))
        else:
            self._pools[kind].put(request, future)
        return future

    def _pool(self, kind: Kind, size: int, decoder: Decoder) -> Pool:
        start = functools.partial(self._start, kind)
        return Pool(kind, size, start, self._limits, decoder)

    def _start(self, kind: Kind) -> WorkerProcess:
        """A fresh worker with its own folder; a sandboxed capture cannot even write to that."""
        folder = Path(tempfile.mkdtemp(prefix=f"{kind}-", dir=self._root))
        writable = None if kind == "capture" and self._sandbox.level != "none" else folder
        variables = environment(self._interpreter, writable or Path("/tmp"), self._library)
        if kind == "capture":
            variables["MALLOC_ARENA_MAX"] = "4"  # each reserves 64 MiB of address space
        devices = tpu_device_files() if kind == "measure" else ()
        if kind == "measure":
            variables |= {k: os.environ[k] for k in _TPU_VARIABLES if k in os.environ}
        job = Job((*self._interpreter.folders, self._library), writable, variables, devices)
        command = [self._interpreter.python, "-m", "maxkernel.worker", kind]
        return WorkerProcess(self._sandbox.wrap(command, job), folder, variables)

    def _limits(self, request: Request) -> Limits:
        settings = self._settings
        memory = settings.worker_memory_mb << 20
        if isinstance(request, CandidateRequest):
            return Limits(
                request.seconds + GRACE_SECONDS,
                request.memory_bytes + CAPTURE_SLACK_BYTES,
                CAPTURE_FRAME_LIMIT,
            )
        if isinstance(request, CompileRequest):
            return Limits(request.seconds or settings.compile_seconds, memory, FRAME_LIMIT)
        if isinstance(request, TraceRequest):
            return Limits(settings.trace_seconds, memory, FRAME_LIMIT)
        if isinstance(request, DeviceRequest):
            return Limits(DEVICE_SECONDS, memory, FRAME_LIMIT)
        if isinstance(request, MeasureRequest):
            return Limits(MEASURE_SECONDS, memory, FRAME_LIMIT)
        return Limits(settings.check_seconds, memory, FRAME_LIMIT)


def _kind_of(request: Request) -> Kind:
    if isinstance(request, CandidateRequest):
        return "capture"
    if isinstance(request, DeviceRequest | MeasureRequest):
        return "measure"
    return "compile" if isinstance(request, CompileRequest | PingRequest) else "check"
