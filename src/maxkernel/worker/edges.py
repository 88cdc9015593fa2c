"""Integers at the edges of what a task draws: lengths, offsets, indices, page tables.

The range of an input is that of the task's own draws, so the reference can always use it. What
holds in every draw goes on to hold: sorted arrays stay sorted between the same ends with steps of
their own range, a constant sum stays, all-different values stay all different, and of two vectors
of one length the one that was never less than the other stays so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maxkernel.worker.uses import Use

Array = np.ndarray[Any, Any]
Rng = np.random.Generator

BLOCKS = (8, 16, 32, 64, 128, 256, 512)
"""Sizes of tiles, pages and blocks: one more and one less than a multiple are tried."""
LEAST = 3
"""Elements that an array needs for its structure to be seen."""


def edge_integers(
    own: Sequence[Array], others: Sequence[Sequence[Array]], uses: Sequence[Use], rng: Rng
) -> tuple[list[Array], str]:
    """Inputs with their indices and lengths at edges, the rest as drawn, and what was done."""
    draws = [own, *others]
    arrays, words = list(own), list[str]()
    for place, use in enumerate(uses):
        mine = [np.asarray(draw[place]) for draw in draws]
        if mine[0].dtype.kind not in "iu" or mine[0].size == 0:
            continue
        if not (use.indexes or use.bounds):
            continue
        made = _edges([m.astype(np.int64) for m in mine], use, rng)
        if made is not None and (made[0] != mine[0]).any():
            arrays[place] = made[0].astype(mine[0].dtype)
            words.append(f"input {place}: {made[1]}")
    _keep_order(arrays, draws)
    return arrays, "; ".join(words)


def _edges(draws: list[Array], use: Use, rng: Rng) -> tuple[Array, str] | None:
    low, high = min(int(d.min()) for d in draws), max(int(d.max()) for d in draws)
    first = draws[0]
    if low == high or len(np.unique(np.stack(draws))) <= 2 < first.size:
        return None
    if first.ndim == 1 and first.size >= LEAST and all((np.diff(d) >= 0).all() for d in draws):
        steps = [np.diff(d) for d in draws]
        moved = _same_sum(steps[0], *_range(steps), rng)
        found = np.concatenate([first[:1], first[0] + np.cumsum(moved)])
        return found, "steps between offsets at the edges of their range"
    if all(len(np.unique(d)) == d.size for d in draws) and high - low < 4 * first.size:
        return rng.permutation(first.reshape(-1)).reshape(first.shape), "another order"
    if use.writes:
        return None
    if first.ndim == 1 and first.size > 1 and len({int(d.sum()) for d in draws}) == 1:
        return _same_sum(first, low, high, rng), "values at the edges of their range, same sum"
    fixed = first < 0
    values = _values(max(low, 0) if fixed.any() else low, high, rng)
    found = np.where(fixed, first, rng.choice(values, first.shape))
    free = np.flatnonzero(~fixed)
    if free.size >= 2:
        one, two = rng.choice(free, 2, replace=False)
        found.reshape(-1)[one], found.reshape(-1)[two] = values.min(), values.max()
    return found, f"values at the edges of {low} .. {high} and of blocks between"


def _range(draws: list[Array]) -> tuple[int, int]:
    return min(int(d.min()) for d in draws), max(int(d.max()) for d in draws)


def _values(low: int, high: int, rng: Rng) -> Array:
    """Both ends, their neighbours, and what lies beside multiples of block sizes."""
    found = {low, low + 1, high - 1, high}
    for block in BLOCKS:
        middle = block * int(rng.integers(low // block, high // block, endpoint=True))
        found |= {middle - 1, middle, middle + 1}
    return np.array(sorted(v for v in found if low <= v <= high), np.int64)


def _same_sum(first: Array, low: int, high: int, rng: Rng) -> Array:
    """Values driven apart in pairs, to an end of the range or one short of it."""
    found = first.copy()
    order = rng.permutation(found.size)
    for one, two in zip(order[::2], order[1::2], strict=False):
        most = min(int(found[one]) - low, high - int(found[two]))
        step = max(most - int(rng.integers(0, 2)), 0)
        found[one] -= step
        found[two] += step
    return found


def _keep_order(arrays: list[Array], draws: Sequence[Sequence[Array]]) -> None:
    """Raises what was never less than another vector, or its steps, and would be now."""
    places = [k for k, a in enumerate(arrays) if a.dtype.kind in "iu" and a.ndim == 1]
    for a in places:
        for b in places:
            for view in (_same, np.diff):
                if a == b or arrays[a].shape != view(arrays[b]).shape:
                    continue
                if all((draw[a] >= view(np.asarray(draw[b]))).all() for draw in draws):
                    floor = view(arrays[b]).astype(arrays[a].dtype)
                    if (arrays[a] < floor).any():
                        arrays[a] = np.maximum(arrays[a], floor)


def _same(array: Array) -> Array:
    return array
