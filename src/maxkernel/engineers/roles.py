"""The roles of a team. Plain data in, plain data out: a person, a model or code can fill each."""

from __future__ import annotations

from typing import Protocol

from maxkernel.targets import Target
from maxkernel.types import (
    Diagnosis,
    Failure,
    Outcome,
    Plan,
    ProgramTime,
    TaskInfo,
    TunableSpace,
)


class Planner(Protocol):
    """Decides what to build next."""

    def plan(self, info: TaskInfo, target: Target, history: tuple[Outcome, ...]) -> list[Plan]:
        """New plans, the most promising first; empty when nothing is left to try."""
        ...


class Implementer(Protocol):
    """Writes the kernel that a plan asks for."""

    def implement(self, info: TaskInfo, plan: Plan, target: Target) -> str:
        """Source of a candidate: `kernel(*inputs, **tunables)` and a literal `TUNABLES`."""
        ...


class Debugger(Protocol):
    """Repairs a candidate that the judge refused."""

    def repair(
        self, info: TaskInfo, plan: Plan, source: str, failure: Failure, target: Target
    ) -> str | None:
        """A changed source, or None when this failure is beyond repair."""
        ...


class Tuner(Protocol):
    """Says which assignments of the tunables are worth a compile. Optional."""

    def extend(
        self, info: TaskInfo, plan: Plan, space: TunableSpace, target: Target
    ) -> TunableSpace:
        """The space to search: `space` itself, or with choices added or removed."""
        ...


class Profiler(Protocol):
    """Explains a timed program."""

    def diagnose(self, info: TaskInfo, program: ProgramTime, target: Target) -> Diagnosis:
        """What limits the program, with the figures that show it."""
        ...
