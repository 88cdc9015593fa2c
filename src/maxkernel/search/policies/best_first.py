"""Best first, with an upper-confidence bonus and progressive widening."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

from maxkernel.search.options import Option
from maxkernel.search.policies.base import Standing

BONUS = 0.08
"""Weight of the upper-confidence term, in merit: 0.08 is an 8 % change of time."""

WIDENING = 1.0
EXPONENT = 0.6
"""A design that had n jobs may have WIDENING * n^EXPONENT + 1 children under way or written."""


class BestFirst:
    """Expected merit, plus a bonus for what has had few jobs."""

    mixes = True

    def choose(self, options: Sequence[Option], standing: Standing, rng: Random) -> Option | None:
        """The option with the highest upper bound among those that widening admits."""
        total = math.log(1 + standing.jobs)
        admitted = [o for o in options if _admitted(o)] or list(options)
        if not admitted:
            return None
        return max(admitted, key=lambda o: _bound(o, standing.best, total))


def _admitted(option: Option) -> bool:
    if option.kind != "implement" or not option.parent:
        return True
    return option.siblings < 1 + WIDENING * option.jobs**EXPONENT


def _bound(option: Option, best: float, total: float) -> float:
    if option.kind == "plan":
        return -math.inf
    return option.worth(best) + BONUS * math.sqrt(total / (1 + option.jobs))
