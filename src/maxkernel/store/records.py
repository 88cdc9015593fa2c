"""What a run file holds beside designs and evaluations."""

from __future__ import annotations

from typing import Any

import msgspec

from maxkernel.types import Budget, Task


class RunHeader(msgspec.Struct, frozen=True):
    """What a run is about; written once."""

    run: str
    task: Task
    target: str
    mode: str
    budget: Budget
    versions: dict[str, str]
    created: float
    """Unix time, seconds."""
    options: dict[str, Any] = {}


class Event(msgspec.Struct, frozen=True):
    """One line of the run's history."""

    id: int
    at: float
    session: int
    kind: str
    body: dict[str, Any]
