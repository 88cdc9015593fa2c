"""No isolation: what `--unsafe-no-sandbox` asks for."""

from __future__ import annotations

from collections.abc import Sequence

from maxkernel.sandbox.base import Job


class NoSandbox:
    """Starts commands as they are."""

    level = "none"

    def wrap(self, command: Sequence[str], job: Job) -> list[str]:
        """The command, unchanged."""
        return list(command)
