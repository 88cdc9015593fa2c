"""The roles of a team. Plain data in, plain data out: a person, a model or code can fill each."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from maxkernel.errors import MaxkernelError
from maxkernel.targets import Target
from maxkernel.types import (
    Design,
    Diagnosis,
    Evaluation,
    Failure,
    InputCase,
    Move,
    Outcome,
    Plan,
    ProgramTime,
    TaskInfo,
    TunableSpace,
)


class NoAnswer(MaxkernelError):
    """An engineer could not answer: this idea is lost, the run goes on.

    Only `plan` and `implement` raise it; the other roles have a neutral answer of their own.
    """


class BudgetSpent(NoAnswer):
    """The engineers' own budget is spent: later questions will not be answered either."""


class Stopped(MaxkernelError):
    """The run is being stopped. Nothing follows from it: no role answers instead, no step of the
    run is stored, and a resumed run asks again."""


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


@runtime_checkable
class SourceProfiler(Protocol):
    """A profiler that also reads the kernel's source: it names the cause and ranks remedies."""

    def diagnose_source(
        self, info: TaskInfo, plan: Plan, source: str, program: ProgramTime, target: Target
    ) -> Diagnosis:
        """As `Profiler.diagnose`, with the cause in the source and what to do about it."""
        ...


class Mover(Protocol):
    """Knows what can be done to a kernel that works, and when it pays. Optional."""

    def moves(
        self,
        info: TaskInfo,
        design: Design,
        evaluation: Evaluation,
        diagnosis: Diagnosis | None,
        target: Target,
    ) -> list[Move]:
        """Moves that apply to this design at its best constants, the best first."""
        ...

    def merges(
        self, info: TaskInfo, design: Design, others: tuple[Design, ...], target: Target
    ) -> list[tuple[Design, Move]]:
        """Moves that join what is good in this design and in one of the others, with that one."""
        ...


@runtime_checkable
class GuidedMover(Protocol):
    """A mover that is dear to ask, so it is asked once per design, and told what happened so far.

    Movers without this cost nothing and are asked about every design at once.
    """

    def guided(
        self,
        info: TaskInfo,
        design: Design,
        evaluation: Evaluation,
        diagnosis: Diagnosis | None,
        partners: tuple[Design, ...],
        history: tuple[Outcome, ...],
        target: Target,
    ) -> tuple[list[Move], list[tuple[Design, Move]]]:
        """Moves from this design, and moves that join it with one of `partners`, with that one.

        `history` is what became of everything else, then of the design's own line, then people's
        hints. Raises NoAnswer.
        """
        ...


class Tester(Protocol):
    """Thinks of inputs on which a kernel could be wrong. Never the only oracle."""

    def cases(self, info: TaskInfo, target: Target) -> tuple[InputCase, ...]:
        """Hard inputs for this task, as data: the judge builds and runs them."""
        ...


class Explainer(Protocol):
    """Says in words what a kernel does and why it is fast."""

    def explain(
        self, info: TaskInfo, evaluation: Evaluation, target: Target, question: str = ""
    ) -> str:
        """Markdown for the report, or the answer to a person's question about this kernel."""
        ...
