"""What a design's trials say of constants that were not tried: ridge regression, in pure Python.

ln seconds = the analytic model's + a plane over the logs of the constants. The plane is fitted to
what was measured, with a penalty of one trial a doubling away on every slope, so that few trials
bend the model little. Ridge regression: Hoerl and Kennard, Technometrics 12, 1970.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from maxkernel.search.graph import Trial
from maxkernel.search.job import Ranked
from maxkernel.search.spaces import place_of
from maxkernel.tuner.space import Assignment
from maxkernel.types import TunableSpace

REFUSED = 0.5
"""What a refused trial counts as: an ln loss against the best one before it."""

PENALTY = 1.0
"""Of the squared slopes, beside the squared errors."""

Place = tuple[float, ...]


class Space:
    """Assignments by key, where they lie, and what the analytic model says of them."""

    def __init__(self, choices: TunableSpace, ranked: Sequence[Ranked]) -> None:
        self.choices = choices
        self._estimates = {self.key(r.tunables): math.log(r.estimate) for r in reversed(ranked)}
        values = self._estimates.values()
        self._typical = sum(values) / len(values) if values else 0.0

    def complete(self, assignment: Assignment) -> Assignment:
        """With defaults where it is silent."""
        return {n: assignment.get(n, choices[0]) for n, choices in self.choices.items()}

    def key(self, assignment: Assignment) -> str:
        """Its name."""
        return repr(sorted(self.complete(assignment).items()))

    def place(self, assignment: Assignment) -> Place:
        """Coordinates; powers of two lie one apart."""
        full = self.complete(assignment)
        return tuple(place_of(choices, full[n]) for n, choices in self.choices.items())

    def estimate(self, key: str) -> float:
        """ln seconds by the analytic model; the mean where it was not asked."""
        return self._estimates.get(key, self._typical)


class Evidence:
    """Sums over the trials of one design: errors of the analytic model, and where they lie."""

    def __init__(self, space: Space) -> None:
        size = len(space.choices)
        self._space = space
        self._counted = 0
        self.count = 0
        self.places: list[Place] = []
        self.errors = 0.0
        self.by_place = [0.0] * size
        self.squares = [[0.0] * size for _ in range(size)]
        self.products = [0.0] * size
        self.known: dict[str, float] = {}
        """ln seconds of accepted trials by key."""
        self.told: dict[str, float] = {}
        """The same, and what refused ones count as."""

    def take(self, trials: Sequence[Trial]) -> None:
        """Counts the trials that are new since the last look; those without a verdict say
        nothing, and neither does a refusal before anything was accepted."""
        for trial in trials[self._counted :]:
            key = self._space.key(trial.tunables)
            if trial.seconds is not None:
                seconds = math.log(trial.seconds)
                self.known[key] = seconds
            elif self.known and not trial.unjudged:
                seconds = min(self.known.values()) + REFUSED
            else:
                continue
            self.told[key] = seconds
            self._add(self._space.place(trial.tunables), seconds - self._space.estimate(key))
        self._counted = len(trials)

    def offset(self, own: Evidence) -> float:
        """How much slower (ln) than this the other design is, at constants that both tried."""
        common = [own.known[k] - seconds for k, seconds in self.known.items() if k in own.known]
        return sum(common) / len(common) if common else 0.0

    def _add(self, place: Place, error: float) -> None:
        self.count += 1
        self.places.append(place)
        self.errors += error
        for i, x in enumerate(place):
            self.by_place[i] += x
            self.products[i] += x * error
            for j, y in enumerate(place):
                self.squares[i][j] += x * y


def plane(sources: Sequence[tuple[Evidence, float]]) -> tuple[float, list[float]]:
    """Intercept and slopes that are fitted to all evidence, each with its offset."""
    size = len(sources[0][0].by_place)
    count = sum(e.count for e, _ in sources)
    if not count:
        return 0.0, [0.0] * size
    errors = sum(e.errors + off * e.count for e, off in sources)
    sums = [sum(e.by_place[i] for e, _ in sources) for i in range(size)]
    products = [sum(e.products[i] + off * e.by_place[i] for e, off in sources) for i in range(size)]
    matrix = [
        [
            sum(e.squares[i][j] for e, _ in sources)
            - sums[i] * sums[j] / count
            + (PENALTY if i == j else 0.0)
            for j in range(size)
        ]
        for i in range(size)
    ]
    slopes = _solve(matrix, [p - s * errors / count for p, s in zip(products, sums, strict=True)])
    return (errors - sum(b * s for b, s in zip(slopes, sums, strict=True))) / count, slopes


def _solve(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Solves a symmetric positive definite system by elimination; needs no pivots."""
    size = len(right)
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for i in range(size):
        for j in range(i + 1, size):
            factor = rows[j][i] / rows[i][i]
            rows[j] = [b - factor * a for a, b in zip(rows[i], rows[j], strict=True)]
    found = [0.0] * size
    for i in reversed(range(size)):
        rest = sum(rows[i][j] * found[j] for j in range(i + 1, size))
        found[i] = (rows[i][size] - rest) / rows[i][i]
    return found
