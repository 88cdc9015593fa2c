"""Which assignment of a design's constants to judge next."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from maxkernel.search.graph import Node
from maxkernel.search.job import Ranked
from maxkernel.tuner.space import Assignment, neighbours
from maxkernel.types import TunableSpace

CURIOSITY = 0.06
"""Expected ln gain of a first look at other constants: the analytic model knows nothing of
registers and latency."""

FADING = 0.7
"""Of that expectation that each trial without a gain leaves."""

TRUST = 0.5
"""Of the analytic model's predicted ln gain that is expected to come true."""


@dataclass
class Constants:
    """A design's space, what is worth judging in it, and what has been."""

    space: TunableSpace
    ranked: list[Ranked]
    pending: set[str] = field(default_factory=set[str])
    """Keys of assignments that are being judged."""

    def __post_init__(self) -> None:
        self._estimates = {self._key(r.tunables): r.estimate for r in reversed(self.ranked)}
        self._favourites = {self._key(r.tunables): r for r in self.ranked}
        self._seen: set[str] = set()
        self._counted = 0

    def start(self, assignment: Assignment) -> None:
        """This assignment is being judged."""
        self.pending.add(self._key(assignment))

    def done(self, assignment: Assignment) -> None:
        """It has been."""
        self.pending.discard(self._key(assignment))

    def next(self, node: Node) -> tuple[Assignment, float] | None:
        """The most promising assignment and its expected ln gain; None when all are tried.

        The model's favourites and the neighbours of the best so far take turns.
        """
        self._count(node)
        seen = self._seen | self.pending
        favourite = next((r for key, r in self._favourites.items() if key not in seen), None)
        turn = len(node.trials) + len(self.pending)
        curiosity = CURIOSITY * FADING ** (_misses(node) + len(self.pending))
        if node.best is not None and (turn % 2 == 0 or favourite is None):
            at = self._complete(node.best.tunables)
            near = [a for a in neighbours(self.space, at) if self._key(a) not in seen]
            if near:
                return min(near, key=self._estimate_or_inf), curiosity
        if favourite is not None:
            gain = TRUST * self._predicted(node, favourite)
            return favourite.tunables, max(0.0, gain) + curiosity
        return None

    def _count(self, node: Node) -> None:
        """Takes in the trials that are new since the last look; those that are settled go."""
        for trial in node.trials[self._counted :]:
            key = self._key(trial.tunables)
            self._seen.add(key)
            self._favourites.pop(key, None)
        self._counted = len(node.trials)

    def _predicted(self, node: Node, pick: Ranked) -> float:
        """ln(estimate of the best so far / estimate of `pick`); 0 where it is not known."""
        if node.best is None:
            return 0.0
        now = self._estimate_or_inf(self._complete(node.best.tunables))
        return math.log(now / pick.estimate) if math.isfinite(now) and pick.estimate > 0 else 0.0

    def _estimate_or_inf(self, assignment: Assignment) -> float:
        return self._estimates.get(self._key(assignment), math.inf)

    def _complete(self, assignment: Assignment) -> Assignment:
        return {n: assignment.get(n, choices[0]) for n, choices in self.space.items()}

    def _key(self, assignment: Assignment) -> str:
        return repr(sorted(self._complete(assignment).items()))


def _misses(node: Node) -> int:
    """Trials since the last one that improved on all before it."""
    misses, best = 0, math.inf
    for trial in node.trials:
        gained = trial.seconds is not None and trial.seconds < best
        misses = 0 if gained else misses + 1
        best = min(best, trial.seconds or math.inf)
    return misses
