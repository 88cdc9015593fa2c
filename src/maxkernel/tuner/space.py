"""Enumerates assignments of tunables, nearest to the default first."""

from __future__ import annotations

import itertools

from maxkernel.types import Tunable, TunableSpace

Assignment = dict[str, Tunable]

MAX_ASSIGNMENTS = 4096
"""Assignments that are enumerated; a larger space is cut to those nearest to the default."""


def assignments(space: TunableSpace) -> list[Assignment]:
    """All assignments, the default first, then by how far they are from it.

    The distance of two assignments is the sum over tunables of how many places apart their
    choices stand in the declared order, so authors list choices by preference.
    """
    names = list(space)
    ranges = [range(len(space[name])) for name in names]
    indices = itertools.islice(itertools.product(*ranges), 4 * MAX_ASSIGNMENTS)
    nearest = sorted(indices, key=lambda index: (sum(index), index))[:MAX_ASSIGNMENTS]
    return [{n: space[n][i] for n, i in zip(names, index, strict=True)} for index in nearest]


def neighbours(space: TunableSpace, at: Assignment) -> list[Assignment]:
    """Assignments that differ from `at` in one tunable by one place in size order."""
    found: list[Assignment] = []
    for name, choices in space.items():
        ordered = sorted(choices, key=lambda choice: (str(type(choice)), choice))
        place = ordered.index(at[name])
        for step in (-1, 1):
            if 0 <= place + step < len(ordered):
                found.append(at | {name: ordered[place + step]})
    return found
