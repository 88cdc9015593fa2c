"""The workers of one kind: a queue of requests, and a thread that owns each worker."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Protocol

import msgspec

from maxkernel.executor.faults import closed_failure, fault_failure, garbled_failure, start_failure
from maxkernel.executor.process import WorkerFault, WorkerProcess
from maxkernel.types.messages import FailureReply, Reply, Request

KILLED_AGAIN = 3
"""How often a request is asked once more whose worker somebody else killed."""

STARTUP_SECONDS = 60.0
"""Added to the limit of a worker's first request: it imports jax and loads the compiler."""


@dataclass(frozen=True)
class Limits:
    """What one request may cost."""

    seconds: float
    memory_bytes: int
    reply_bytes: int


class Decoder(Protocol):
    """Turns a reply's body into a reply, checking every field; raises msgspec.MsgspecError."""

    def decode(self, buf: bytes, /) -> Any:
        """The reply."""
        ...


class Pool:
    """Up to `size` workers. A worker that faults is killed; the next request gets a fresh one."""

    def __init__(
        self,
        name: str,
        size: int,
        start: Callable[[], WorkerProcess],
        limits: Callable[[Request], Limits],
        decoder: Decoder,
    ) -> None:
        self._name = name
        self._size = size
        self._start = start
        self._limits = limits
        self._decoder = decoder
        self._queue: SimpleQueue[tuple[Request, Future[Reply]] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._workers: dict[int, WorkerProcess] = {}
        self._lock = threading.Lock()
        self._pending = 0
        self._idle = 0
        self._stopped = False

    @property
    def pids(self) -> list[int]:
        """Process ids of the live workers on the host."""
        with self._lock:
            return [worker.pid for worker in self._workers.values()]

    def put(self, request: Request, future: Future[Reply]) -> None:
        """Queues a request; starts another worker when none is idle and there is room."""
        with self._lock:
            self._pending += 1
            if self._pending > self._idle and len(self._threads) < self._size:
                name = f"{self._name}-{len(self._threads)}"
                thread = threading.Thread(target=self._run, name=name, daemon=True)
                self._threads.append(thread)
                self._idle += 1
                thread.start()
            self._queue.put((request, future))

    def stop(self) -> None:
        """Kills the workers and lets the threads end; requests left get a failure."""
        with self._lock:
            self._stopped = True
            for worker in self._workers.values():
                worker.kill()
            for _ in self._threads:
                self._queue.put(None)

    def join(self) -> None:
        """Waits for the threads."""
        for thread in self._threads:
            thread.join(15)

    def _run(self) -> None:
        slot = threading.get_ident()
        while (item := self._queue.get()) is not None:
            request, future = item
            with self._lock:
                self._pending -= 1
                self._idle -= 1
            if future.set_running_or_notify_cancel():
                future.set_result(self._answer(slot, request))
            with self._lock:
                self._idle += 1
        self._discard(slot)

    def _answer(self, slot: int, request: Request) -> Reply:
        try:
            return self._serve(slot, request)
        except (OSError, subprocess.SubprocessError) as error:
            return FailureReply(start_failure(request, error))

    def _serve(self, slot: int, request: Request, left: int = KILLED_AGAIN) -> Reply:
        """One whose worker was killed from outside is asked again: that says nothing of it."""
        worker = self._worker(slot)
        if worker is None:
            return FailureReply(closed_failure(request))
        warm = worker.answered > 0
        limits = self._limits(request)
        seconds = limits.seconds + (0.0 if warm else STARTUP_SECONDS)
        try:
            body = worker.ask(
                msgspec.msgpack.encode(request), seconds, limits.memory_bytes, limits.reply_bytes
            )
            return self._decoder.decode(body)
        except WorkerFault as fault:
            self._discard(slot)
            if fault.killed and left and not self._stopped:
                return self._serve(slot, request, left - 1)
            closed = closed_failure(request) if self._stopped else None
            return FailureReply(closed or fault_failure(request, fault, warm))
        except msgspec.MsgspecError as error:
            self._discard(slot)
            return FailureReply(garbled_failure(request, error))

    def _worker(self, slot: int) -> WorkerProcess | None:
        """This thread's worker, started when there is none; None when the pool was stopped."""
        with self._lock:
            worker = self._workers.get(slot)
            if worker is None and not self._stopped:
                worker = self._workers[slot] = self._start()
            return worker

    def _discard(self, slot: int) -> None:
        with self._lock:
            worker = self._workers.pop(slot, None)
        if worker is not None:
            worker.close()
