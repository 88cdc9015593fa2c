"""Which assignment of a design's constants to judge next.

The analytic model is corrected by what was measured (`surrogate.py`). Trials of the designs that
a move came from, and of those that came of it, count too, so that no hill is climbed twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from maxkernel.search.graph import Node
from maxkernel.search.job import Ranked
from maxkernel.search.spaces import nearest
from maxkernel.search.surrogate import Evidence, Space, plane
from maxkernel.tuner.space import Assignment, neighbours
from maxkernel.types import TunableSpace

CURIOSITY = 0.09
"""Expected ln gain of a first look at other constants: on the tasks of `benchmarks/search` the
best constants of a design were 3 to 25 % faster than its defaults, 9 % in the geometric middle.
With more, searches tune slow first versions for as long as their intents have credit, and never
come to the moves that would redeem them (`tests/graph/graph_world.py`)."""

FADING = 0.7
"""Of that expectation that each trial without a gain leaves."""

TRUST = 0.5
"""Of a predicted ln gain that is expected to come true."""

NOVELTY = 0.03
"""Predicted ln loss that a trial far from all others is worth, for what it teaches."""

KIN = 4
"""Relatives whose trials a design learns from."""


@dataclass
class Constants:
    """A design's space, what is worth judging in it, and what has been."""

    space: TunableSpace
    ranked: tuple[Ranked, ...]
    captured: int = 0
    """Assignments that were looked at, the nearest ones; of those only `ranked` are worth it."""
    pending: set[str] = field(default_factory=set[str])
    """Keys of assignments that are being judged."""

    def __post_init__(self) -> None:
        self._space = Space(self.space, self.ranked)
        self._key = self._space.key
        self._fresh = {self._key(r.tunables): r.tunables for r in self.ranked}
        self._places = {key: self._space.place(pick) for key, pick in self._fresh.items()}
        looked_at = nearest(self.space, self.captured)
        self._useless = {self._key(a) for a in looked_at} - set(self._fresh)
        self._evidence: dict[int, Evidence] = {}
        self._seen: set[str] = set()
        self._counted = 0
        self._near: dict[int, dict[str, float]] = {}
        self._placed: dict[int, int] = {}
        self._changes = 0
        """How often something began or ended to be judged."""
        self._asked: tuple[object, ...] = ()
        self._answer: tuple[Assignment, float] | None = None
        """The last answer of `next`, and what it followed from."""

    def start(self, assignment: Assignment) -> None:
        """This assignment is being judged."""
        self._changes += 1
        self.pending.add(self._key(assignment))

    def done(self, assignment: Assignment) -> None:
        """It has been."""
        self._changes += 1
        self.pending.discard(self._key(assignment))

    def same(self, one: Assignment, other: Assignment) -> bool:
        """True when both stand for the same choices."""
        return self._key(one) == self._key(other)

    def next(
        self, node: Node, kin: Sequence[Node] = (), ground: Sequence[Node] = ()
    ) -> tuple[Assignment, float] | None:
        """The most promising assignment and its expected ln gain; None when all are tried.

        Those that were ranked, and the neighbours of the best one that nobody looked at. `kin`:
        designs with like constants. `ground`: those that are this one all but in name. All follows
        from what is pending and from their trials, so nothing is worked out again without a change.
        """
        kin = kin[:KIN]
        asked = (self._changes, *((n.id, len(n.trials)) for n in (node, *kin, *ground)))
        if asked != self._asked:
            self._answer = self._next(node, kin, ground)
            self._asked = asked
        return self._answer

    def _next(
        self, node: Node, kin: Sequence[Node], ground: Sequence[Node]
    ) -> tuple[Assignment, float] | None:
        self._count(node)
        picks = {k: pick for k, pick in self._fresh.items() if k not in self.pending}
        for pick in self._neighbours(node):
            picks.setdefault(self._key(pick), pick)
        if not picks:
            return None
        predicted = self._predict(node, kin, list(picks))
        near = self._nearness(node, kin, picks)
        best = math.log(node.seconds) if node.seconds is not None else 0.0
        key = min(picks, key=lambda k: predicted[k] - NOVELTY * (1.0 - near[k]))
        misses = max(_misses(n) for n in (node, *ground)) + len(self.pending)
        curiosity = CURIOSITY * FADING**misses
        return picks[key], TRUST * max(0.0, best - predicted[key]) + curiosity

    def _count(self, node: Node) -> None:
        """Takes in the trials that are new since the last look; those that are settled go."""
        for trial in node.trials[self._counted :]:
            key = self._key(trial.tunables)
            self._seen.add(key)
            self._fresh.pop(key, None)
        self._counted = len(node.trials)

    def _neighbours(self, node: Node) -> list[Assignment]:
        if node.best is None:
            return []
        seen = self._seen | self.pending | self._useless
        at = self._space.complete(node.best.tunables)
        return [a for a in neighbours(self.space, at) if self._key(a) not in seen]

    def _predict(self, node: Node, kin: Sequence[Node], keys: list[str]) -> dict[str, float]:
        """ln seconds of assignments: what relatives took where they tried it, else the surrogate's,
        else, where the model was not asked, that of the best one."""
        own = self._learn(node)
        others = [(e, e.offset(own)) for e in (self._learn(other) for other in kin)]
        base, slopes = plane([(own, 0.0), *others])
        told = {k: seconds + offset for e, offset in others for k, seconds in e.told.items()}
        best = math.log(node.seconds) if node.seconds is not None else 0.0
        found: dict[str, float] = {}
        for key in keys:
            place = self._places.get(key)
            if place is None or key in told:
                found[key] = told.get(key, best)
                continue
            lift = 0.0
            for b, x in zip(slopes, place, strict=True):
                lift += b * x
            found[key] = self._space.estimate(key) + base + lift
        return found

    def _nearness(self, node: Node, kin: Sequence[Node], keys: Iterable[str]) -> dict[str, float]:
        """By key: 1 where one of these designs tried it, half per doubling away from that; half
        where none of them tells."""
        known = [near for n in (node, *kin) if (near := self._near.get(n.id))]
        return {k: max((near[k] for near in known if k in near), default=0.5) for k in keys}

    def _learn(self, node: Node) -> Evidence:
        """The evidence of one design, brought up to date."""
        evidence = self._evidence.setdefault(node.id, Evidence(self._space))
        evidence.take(node.trials)
        near = self._near.setdefault(node.id, {})
        for place in evidence.places[self._placed.get(node.id, 0) :]:
            for key in self._fresh:
                apart = 0.0
                for a, b in zip(place, self._places[key], strict=True):
                    apart += abs(a - b)
                near[key] = max(near.get(key, 0.0), 2.0**-apart)
        self._placed[node.id] = len(evidence.places)
        return evidence


def _misses(node: Node) -> int:
    """Trials since the last one that improved on all before it."""
    misses, best = 0, math.inf
    for trial in node.trials:
        gained = trial.seconds is not None and trial.seconds < best
        misses = 0 if gained else misses + 1
        best = min(best, trial.seconds or math.inf)
    return misses
