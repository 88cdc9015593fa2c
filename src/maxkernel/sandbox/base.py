"""What a sandbox is asked for, and what it must do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Job:
    """What one process may see. Everything else is out of its reach."""

    read_only: Sequence[Path]
    """Folders and files beside the system's own, at their own paths."""
    writable: Path | None
    """The only folder of the host that it may write to; also its temporary folder."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """The whole environment."""
    devices: Sequence[Path] = ()
    """Device files that it may open; with any, it also sees how the kernel lists devices."""


class Sandbox(Protocol):
    """Turns a command into the same command with less power."""

    @property
    def level(self) -> str:
        """What reports print: `bubblewrap` or `none`."""
        ...

    def wrap(self, command: Sequence[str], job: Job) -> list[str]:
        """The command line to start; to be started with `job.environment` alone."""
        ...
