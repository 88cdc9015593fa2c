"""Opens the executor that the settings name."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Protocol

from maxkernel.config import Settings
from maxkernel.errors import UsageError
from maxkernel.executor.base import Executor
from maxkernel.executor.local import local_executor
from maxkernel.types.messages import Reply


class WarmExecutor(Executor, Protocol):
    """An executor whose workers can be started before they are needed."""

    def warm(self) -> list[Future[Reply]]:
        """Starts workers in the background; the futures are their pings."""
        ...


def open_executor(settings: Settings, allow_no_sandbox: bool = False) -> WarmExecutor:
    """`local`: workers on this machine. `ray` or `ray:ADDRESS`: on the hosts of a Ray cluster.

    Raises UsageError for another word, EnvironmentFault when no workers can run there.
    """
    kind, _, address = settings.executor.partition(":")
    if kind == "local" and not address:
        return local_executor(settings, allow_no_sandbox)
    if kind == "ray":
        from maxkernel.executor.ray import RayExecutor

        return RayExecutor(settings, address or "auto", allow_no_sandbox)
    raise UsageError(
        f"bad setting: executor is {settings.executor!r}", "use local, ray, or ray:ADDRESS"
    )
