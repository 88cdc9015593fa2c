"""The protocol of executors."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Protocol

from maxkernel.types.messages import Reply, Request


class Executor(Protocol):
    """Runs requests in worker processes."""

    @property
    def sandbox(self) -> str:
        """Level of isolation of the workers: `bubblewrap` or `none`."""
        ...

    def submit(self, request: Request) -> Future[Reply]:
        """The reply, in time. A worker that fails in any way answers with a FailureReply.

        The future can be cancelled until a worker takes the request.
        """
        ...

    def close(self) -> None:
        """Ends every worker; requests without a reply get a FailureReply."""
        ...
