"""Elites: the best design of every niche stays in play, so that variety survives."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from maxkernel.search.options import Option
from maxkernel.search.policies.base import Standing

GREED = 0.5
"""Share of decisions that go to the niche of the best option; the rest go to niches by lot."""


class Elites:
    """Niches are bottleneck x strategy family."""

    mixes = True

    def choose(self, options: Sequence[Option], standing: Standing, rng: Random) -> Option | None:
        """The best option of a niche's elite; the niche is the best one's or drawn by lot."""
        plan = next((o for o in options if o.kind == "plan"), None)
        niches: dict[tuple[str, str], list[Option]] = {}
        for option in options:
            if option.kind != "plan":
                niches.setdefault(option.niche, []).append(option)
        if not niches:
            return plan
        names = sorted(niches)
        best = max(names, key=lambda n: max(o.worth(standing.best) for o in niches[n]))
        name = best if rng.random() < GREED else rng.choice(names)
        members = niches[name]
        elite = max(members, key=lambda o: (o.base(standing.best), -o.node))
        near = [o for o in members if (o.parent or o.node) == (elite.parent or elite.node)]
        return max(near, key=lambda o: o.worth(standing.best))
