"""Further inputs for a check, made from a task's own draws so that what they mean stays.

Left as they are: booleans, NaN and infinities, exact zeros, arrays of hardly any different values
(masks, flags), sorted ones (tables, positions). A float that the reference takes the logarithm,
the exponential or the like of keeps its range. How integers vary is said in `edges`.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import ml_dtypes
import numpy as np

from maxkernel.types.evaluation import Distribution
from maxkernel.worker.edges import edge_integers
from maxkernel.worker.uses import Use

Array = np.ndarray[Any, Any]
Rng = np.random.Generator

STRENGTHS: dict[Distribution, tuple[int, ...]] = {"large": (8, 5, 3), "small": (12, 6)}
"""Powers of two that floats are multiplied, or divided, by: the first one that the reference bears.

2**8 takes the exponential of a normal draw out of float32, 2**-12 its square below any epsilon,
and neither comes near the limits of bfloat16.
"""
ZEROS = 1 / 3
"""Share of elements that `signed zeros` replaces."""
FEW = 2
"""An array of at most so many different values, zero aside, is a mask."""
HEAD = 4096
"""Elements looked at before the rest: they mostly tell whether an array is a mask or sorted."""
SMALL_ARRAY = 8
"""Elements below which that cannot be told."""


@dataclass(frozen=True)
class Draws:
    """Inputs of one seed, with further draws that show what stays the same, and their uses."""

    arrays: Sequence[Array]
    others: Sequence[Sequence[Array]]
    uses: Sequence[Use]


@dataclass(frozen=True)
class Made:
    """Inputs of a distribution."""

    arrays: list[Array]
    changed: tuple[int, ...]
    how: str = ""


def strengths(name: Distribution) -> tuple[int, ...]:
    """What to try in turn; `(0,)` for a distribution of one kind only."""
    return STRENGTHS.get(name, (0,))


def make(name: Distribution, draws: Draws, strength: int, rng: Rng) -> Made:
    """Inputs of a distribution; nothing is `changed` where it does not apply to the task."""
    if name == "edges":
        arrays, how = edge_integers(draws.arrays, draws.others, draws.uses, rng)
    else:
        change = _CHANGES[name]
        arrays, how = [], ""
        for array, use in zip(draws.arrays, draws.uses, strict=True):
            arrays.append(_changed(array, use, lambda a, u: change(a, u, strength, rng)))
        if strength:
            how = f"floats x 2^{strength if name == 'large' else -strength}"
    pairs = enumerate(zip(arrays, draws.arrays, strict=True))
    changed = tuple(k for k, (new, old) in pairs if new is not old)
    return Made(arrays, changed, how)


def _changed(array: Array, use: Use, change: Callable[[Array, Use], Array | None]) -> Array:
    if not is_data(array, use):
        return array
    wide = array.astype(np.float64)
    keep = ~np.isfinite(wide) | (wide == 0)
    new = change(wide, use)
    if new is None:
        return array
    new[keep] = wide[keep]
    limits = _limits(array.dtype)
    with np.errstate(over="ignore"):
        return np.clip(new, *limits, where=~keep, out=new).astype(array.dtype)


def is_data(array: Array, use: Use) -> bool:
    """Whether the values of an input are free: no mask, no table, no index and no length."""
    if array.dtype == np.bool_ or array.size < 1 or use.indexes or use.bounds:
        return False
    flat = array.reshape(-1)
    for part in (flat[:HEAD], flat):
        wide = part.astype(np.float64)
        values = wide[np.isfinite(wide) & (wide != 0)]
        if values.size and (array.size < SMALL_ARRAY or len(np.unique(values)) > FEW):
            return not is_sorted(array)
    return False


def is_sorted(array: Array) -> bool:
    """Whether an array never falls along its last axis, or never rises."""
    if array.ndim == 0 or array.shape[-1] < 4:
        return False
    for part in (array.reshape(-1, array.shape[-1])[0, :HEAD], array):
        steps = np.diff(part.astype(np.float64), axis=-1)
        if not ((steps >= 0).all() or (steps <= 0).all()):
            return False
    return True


def _is_integer(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "iu" or dtype.name in ("int4", "uint4", "int2", "uint2")


def _limits(dtype: np.dtype[Any]) -> tuple[float, float]:
    """Least and greatest value that is put into an array; floats keep a quarter in reserve."""
    found: Any = cast(Any, ml_dtypes.iinfo if _is_integer(dtype) else ml_dtypes.finfo)(dtype)
    share = 1.0 if _is_integer(dtype) else 0.25
    return float(found.min) * share, float(found.max) * share


def _span(wide: Array) -> tuple[float, float]:
    finite = wide[np.isfinite(wide)]
    return float(finite.min()), float(finite.max())


def _uniform(wide: Array, use: Use, _: int, rng: Rng) -> Array:
    """Over the range of the draw; where its sign is free, over that range and its mirror image."""
    low, high = _span(wide)
    whole = bool((wide == np.rint(wide)).all())
    if whole:
        return rng.integers(int(low), int(high), wide.shape, endpoint=True).astype(np.float64)
    if not use.ranged:
        low, high = -max(-low, high), max(-low, high)
    return rng.uniform(low, high, wide.shape)


def _scaled(wide: Array, use: Use, exponent: int, rng: Rng) -> Array | None:
    whole = bool((wide == np.rint(wide)).all())
    return None if use.ranged or whole else wide * 2.0**exponent


def _large(wide: Array, use: Use, strength: int, rng: Rng) -> Array | None:
    return _scaled(wide, use, strength, rng)


def _small(wide: Array, use: Use, strength: int, rng: Rng) -> Array | None:
    return _scaled(wide, use, -strength, rng)


def _equal_rows(wide: Array, use: Use, _: int, rng: Rng) -> Array | None:
    if wide.ndim < 2 or wide.shape[-2] < 2:
        return None
    return np.broadcast_to(wide[..., :1, :], wide.shape).copy()


def _signed_zeros(wide: Array, use: Use, _: int, rng: Rng) -> Array | None:
    low, high = _span(wide)
    if use.ranged or not low < 0 < high:
        return None
    zeros = np.where(rng.random(wide.shape) < 0.5, -0.0, 0.0)
    return np.where(rng.random(wide.shape) < ZEROS, zeros, wide)


_CHANGES: dict[Distribution, Callable[[Array, Use, int, Rng], Array | None]] = {
    "uniform": _uniform,
    "large": _large,
    "small": _small,
    "equal rows": _equal_rows,
    "signed zeros": _signed_zeros,
}
