"""The protocol of policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from maxkernel.search.options import Option


@dataclass(frozen=True)
class Standing:
    """How a search stands when a policy is asked."""

    best: float
    """Highest merit so far; minus infinity before the first accepted design."""
    jobs: int
    """Decisions so far."""
    left: int
    """Evaluations that are neither spent nor reserved."""
    running: Mapping[int, int]
    """Jobs under way per chain (see `Option.chain`)."""


class Policy(Protocol):
    """Chooses among options. It keeps no state that options and standing do not give back, so a
    resumed search goes on as if it had never stopped."""

    mixes: bool
    """Designs of different chains may be merged."""

    def choose(self, options: Sequence[Option], standing: Standing, rng: Random) -> Option | None:
        """One of `options`, or None to wait for what is under way."""
        ...
