"""The space of constants that a search looks at: what a kernel declares, and what lies between."""

from __future__ import annotations

import itertools
import math

from maxkernel.tuner.space import MAX_ASSIGNMENTS, Assignment
from maxkernel.types import Tunable, TunableSpace

SMALLEST = 8
"""Block sizes below a sublane tile are never worth a try."""


def widen(space: TunableSpace) -> TunableSpace:
    """Integer choices that are all powers of two get those that are missing between them, and
    the next one on either side. Other choices stay as they are declared."""
    return {name: (*choices, *_fresh(choices)) for name, choices in space.items()}


def nearest(space: TunableSpace, limit: int) -> list[Assignment]:
    """Assignments by how far they are from the default, which is the first choice of each.

    The distance of two powers of two is the number of doublings between them, that of other
    choices the number of places between them.
    """
    names = list(space)
    steps = [[_steps(space[n][0], c, i) for i, c in enumerate(space[n])] for n in names]
    ranges = [range(len(s)) for s in steps]
    indices = itertools.islice(itertools.product(*ranges), 4 * MAX_ASSIGNMENTS)
    order = sorted(indices, key=lambda at: (sum(s[i] for s, i in zip(steps, at, strict=True)), at))
    return [{n: space[n][i] for n, i in zip(names, at, strict=True)} for at in order[:limit]]


def strangers(declared: TunableSpace, assignment: Assignment) -> int:
    """How many of an assignment's constants are not among the declared choices."""
    return sum(value not in declared.get(name, ()) for name, value in assignment.items())


def place_of(choices: tuple[Tunable, ...], choice: Tunable) -> float:
    """A coordinate of one choice: powers of two lie one apart, others as they are listed."""
    if all(_is_power(c) for c in choices) and _is_power(choice):
        return math.log2(int(choice))
    return float(choices.index(choice)) if choice in choices else 0.0


def _fresh(choices: tuple[Tunable, ...]) -> list[Tunable]:
    values = [v for v in choices if _is_power(v)]
    if not values or len(values) != len(choices):
        return []
    low, high = int(min(values)), int(max(values))
    wanted = [low << n for n in range(1, int(math.log2(high // low)))]
    wanted += [high * 2, low // 2] if len(values) > 1 else []
    return [v for v in wanted if v >= SMALLEST and v not in values]


def _steps(default: Tunable, choice: Tunable, place: int) -> float:
    if _is_power(default) and _is_power(choice):
        return abs(math.log2(int(choice) / int(default)))
    return place


def _is_power(value: Tunable) -> bool:
    return type(value) is int and value > 0 and value & (value - 1) == 0
