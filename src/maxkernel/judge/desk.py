"""Asks workers, and remembers what they answered: one cached question for every stage."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Generic, TypeVar

from maxkernel.errors import EnvironmentFault, MaxkernelError, TaskError, TaskTimeout
from maxkernel.executor import Executor
from maxkernel.judge.cache import Cache
from maxkernel.types import Failure, Stage, Task
from maxkernel.types.messages import (
    CaptureReply,
    CheckReply,
    CompileReply,
    FailureReply,
    LintReply,
    OutlineReply,
    PingReply,
    PingRequest,
    Reply,
    Request,
    SpotReply,
    TraceReply,
)

R = TypeVar(
    "R", CaptureReply, CheckReply, CompileReply, LintReply, OutlineReply, SpotReply, TraceReply
)


class Pending(Generic[R]):
    """A question under way."""

    def __init__(
        self, future: Future[Reply] | R, kind: type[R], stage: Stage, desk: Desk, key: str
    ):
        self._future = future
        self._kind: type[R] = kind
        self._stage: Stage = stage
        self._desk = desk
        self._key = key

    @property
    def cached(self) -> bool:
        """True when the answer came from the cache."""
        return not isinstance(self._future, Future)

    def result(self) -> R | Failure:
        """The answer, when it is there. Only good answers are remembered."""
        if not isinstance(self._future, Future):
            return self._future
        reply = self._future.result()
        if isinstance(reply, self._kind):
            self._desk.remember(self._key, reply)
            return reply
        return failure_of(reply, self._stage)

    def cancel(self) -> None:
        """Nobody needs the answer any more."""
        if isinstance(self._future, Future):
            self._future.cancel()


class Desk:
    """Thread-safe."""

    def __init__(self, executor: Executor, cache: Cache | None) -> None:
        self._executor = executor
        self._cache = cache
        self._versions: dict[str, str] | None = None

    @property
    def sandbox(self) -> str:
        """Level of isolation of the workers."""
        return self._executor.sandbox

    @property
    def versions(self) -> dict[str, str]:
        """Versions of jax and the compiler in the workers; part of every cache key."""
        if self._versions is None:
            reply = self._executor.submit(PingRequest()).result()
            if not isinstance(reply, PingReply):
                failure = failure_of(reply, "trace")
                raise EnvironmentFault(
                    f"the workers do not start: {failure.message}",
                    failure.advice or failure.detail,
                )
            self._versions = reply.versions
        return self._versions

    def ask(self, request: Request, kind: type[R], stage: Stage, key: str = "") -> Pending[R]:
        """Asks, or finds the remembered answer under `key`; without a key nothing is remembered."""
        known = self._cache.get(key, kind) if self._cache and key else None
        return Pending(known or self._executor.submit(request), kind, stage, self, key)

    def remember(self, key: str, reply: R) -> None:
        """Stores a good answer."""
        if self._cache and key:
            self._cache.put(key, reply)


def failure_of(reply: Reply, stage: Stage) -> Failure:
    """The failure that a reply stands for, where another reply was hoped for."""
    if isinstance(reply, FailureReply):
        return reply.failure
    return Failure(stage=stage, kind="crash", message=f"the worker answered {type(reply).__name__}")


def task_error(task: Task, failure: Failure, what: str = "") -> MaxkernelError:
    """What is raised when a task cannot be judged, in the words of a worker's failure."""
    text = f"{task.origin or task.name}: {what}{failure.message}"
    if failure.kind == "environment":
        return EnvironmentFault(text, failure.advice)
    kind = TaskTimeout if failure.kind == "timeout" else TaskError
    return kind(text, failure.advice or failure.detail)
