"""A run in progress: its memory, its judge, its team, and what is left of its budget."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from maxkernel.engineers.team import Team
from maxkernel.judge import Judge, Prepared
from maxkernel.store import RunFile
from maxkernel.tuner.space import Assignment
from maxkernel.types import Artifact, Budget, Candidate, Design, Evaluation, Failure, Plan
from maxkernel.types.messages import Outline

T = TypeVar("T")
U = TypeVar("U")


class Progress(Protocol):
    """Somebody who watches. Called from several threads; must not block."""

    def stage(self, name: str, design: int | None) -> None:
        """A stage of the judge, or a role's work, starts."""
        ...

    def prepared(self, prepared: Prepared) -> None:
        """The task is traced and its baseline timed."""
        ...

    def evaluated(self, design: int, evaluation: Evaluation) -> None:
        """A candidate has been judged (or remembered from before a resume)."""
        ...


class Silent:
    """Nobody watches."""

    def stage(self, name: str, design: int | None) -> None:
        """Ignored."""

    def prepared(self, prepared: Prepared) -> None:
        """Ignored."""

    def evaluated(self, design: int, evaluation: Evaluation) -> None:
        """Ignored."""


@dataclass
class Context:
    """Everything that an expansion needs. All methods are thread-safe."""

    run: RunFile
    judge: Judge
    prepared: Prepared
    team: Team
    budget: Budget
    workers: int
    progress: Progress = field(default_factory=Silent)
    stopping: Callable[[], bool] = lambda: False

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._started = time.monotonic()
        self._spent_before = self.run.spent_seconds()
        self._evaluations = len(self.run.evaluations())
        taken = [d.id for d in self.run.designs()] + [i.id for i in self.run.intents()]
        self._ids = itertools.count(max(taken, default=0) + 1)

    def seconds_used(self) -> float:
        """Seconds that this run has been driven for, earlier sessions included."""
        return self._spent_before + time.monotonic() - self._started

    def candidates_left(self) -> int:
        """Evaluations that the budget still allows."""
        if self.stopping() or (
            self.budget.seconds is not None and self.seconds_used() >= self.budget.seconds
        ):
            return 0
        with self._lock:
            return max(0, self.budget.candidates - self._evaluations)

    def new_design(self, plan: Plan, source: str, move: str, parents: tuple[int, ...]) -> Design:
        """A design with the next free id; the caller stores it."""
        with self._lock:
            return Design(next(self._ids), plan, source, move, parents)

    def evaluate(self, design: Design, candidates: list[Candidate]) -> list[Evaluation]:
        """Judges candidates side by side, as far as the budget goes.

        A candidate that this run has judged before is answered from the run file and costs
        nothing, so the result holds a prefix of `candidates` when the budget ends. A fault of
        this machine (`environment`) says nothing of a candidate: it is not remembered.
        """
        return [e for e in self._map(lambda c: self._evaluate(design, c), candidates) if e]

    def outline(self, source: str, assignments: list[Assignment]) -> list[Outline]:
        """What ranking looks at in each assignment of a source's constants, in order."""
        return self.judge.outline(self.prepared, source, assignments)

    def capture(self, candidates: list[Candidate]) -> list[Artifact | Failure]:
        """The artifacts of candidates, in order."""
        return self._map(lambda c: self.judge.capture(self.prepared, c)[0], candidates)

    def _evaluate(self, design: Design, candidate: Candidate) -> Evaluation | None:
        known = self.run.evaluation(candidate.digest)
        if known is None:
            if not self._reserve():
                return None
            known = self.judge.evaluate(
                self.prepared, candidate, lambda stage: self.progress.stage(stage, design.id)
            )
            if known.failure is not None and known.failure.kind == "environment":
                self._release()
            else:
                self.run.add_evaluation(design.id, known)
        self.progress.evaluated(design.id, known)
        return known

    def _reserve(self) -> bool:
        if self.candidates_left() < 1:
            return False
        with self._lock:
            if self._evaluations >= self.budget.candidates:
                return False
            self._evaluations += 1
            return True

    def _release(self) -> None:
        with self._lock:
            self._evaluations -= 1

    def _map(self, work: Callable[[T], U], items: list[T]) -> list[U]:
        if len(items) < 2:
            return [work(item) for item in items]
        with ThreadPoolExecutor(max_workers=self.workers) as pool:
            return list(pool.map(work, items))
