"""Shares one budget among many searches: fairly first, then to where gains are still coming."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

SLICE = 8
"""Evaluations that a search gets at a time."""

MEMORY = 0.5
"""Weight of what earlier slices gained beside the latest one."""


@dataclass
class Share:
    """What one search has had and what it made of it."""

    name: str
    spent: int = 0
    best: float | None = None
    """Best accepted seconds."""
    promise: float = float("inf")
    """Expected ln gain of its next slice; infinite before its first one."""
    over: bool = False
    """It has nothing more to try, or has reached its roofline."""
    slices: list[int] = field(default_factory=list[int])

    def report(self, spent: int, best: float | None, over: bool) -> None:
        """What a slice came to: all evaluations so far, the best seconds, whether it is over."""

        gain = math.log(self.best / best) if self.best and best else (1.0 if best else 0.0)
        known = 0.0 if math.isinf(self.promise) else self.promise
        self.promise = gain + MEMORY * known
        self.slices.append(spent - self.spent)
        self.spent, self.best, self.over = spent, best, over


def next_share(shares: list[Share], left: int) -> tuple[Share, int] | None:
    """Whose turn it is and how many evaluations it gets; None when the budget or work is over.

    Every search has one slice before any has two; then the most promising goes first, and of
    equals the one that has had least.
    """
    open_ones = [s for s in shares if not s.over]
    if left < 1 or not open_ones:
        return None
    chosen = min(open_ones, key=lambda s: (-s.promise, s.spent, s.name))
    waiting = sum(1 for s in open_ones if not s.slices)
    fair = max(1, left // waiting) if waiting else left
    return chosen, min(SLICE, fair, left)
