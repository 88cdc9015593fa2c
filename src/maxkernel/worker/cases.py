"""Inputs that a tester described as data: how each fill is made from the task's own draw.

Whatever is asked for, integers stay within the range of the task's draws, and floats within their
type: a case is a wish of somebody who may not know the task well.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import ml_dtypes
import numpy as np

from maxkernel.types.search import Fill, InputCase
from maxkernel.worker.distributions import Draws, Made

Array = np.ndarray[Any, Any]
Rng = np.random.Generator

LARGE, TINY = 2.0**8, 2.0**-12
"""What `large` and `tiny` multiply with where the case gives no scale of its own."""


def make_case(case: InputCase, draws: Draws, rng: Rng) -> Made:
    """The inputs of a case; those without a fill are as drawn. Unknown positions are left out."""
    arrays = list(draws.arrays)
    changed: list[int] = []
    for place, fill in sorted(case.fills.items()):
        if not 0 <= place < len(arrays) or arrays[place].dtype == np.bool_:
            continue
        seen = [arrays[place], *(other[place] for other in draws.others)]
        arrays[place] = _filled(fill, seen, case.scale, rng)
        changed.append(place)
    return Made(arrays, tuple(changed), case.reason)


def _filled(fill: Fill, seen: Sequence[Array], scale: float, rng: Rng) -> Array:
    own = seen[0]
    wide = own.astype(np.float64)
    whole = own.dtype.kind in "iu" or own.dtype.name in ("int4", "uint4", "int2", "uint2")
    if whole:
        low, high = min(float(a.min()) for a in seen), max(float(a.max()) for a in seen)
    else:
        low, high = _limits(own.dtype)
    finite = wide[np.isfinite(wide)]
    span = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    values = _FILLS[fill](wide, (low, high) if whole else span, scale, rng)
    values = np.nan_to_num(np.broadcast_to(values, wide.shape))
    return np.clip(np.rint(values) if whole else values, low, high).astype(own.dtype)


def _limits(dtype: np.dtype[Any]) -> tuple[float, float]:
    limits: Any = cast(Any, ml_dtypes.finfo)(dtype)
    return float(limits.min), float(limits.max)


def _size(wide: Array, span: tuple[float, float]) -> float:
    return float(np.sqrt(np.mean(np.square(np.clip(np.nan_to_num(wide), *span))))) or 1.0


def _one_hot(wide: Array) -> Array:
    found = np.zeros_like(wide)
    if wide.ndim:
        rows = found.reshape(-1, wide.shape[-1])
        rows[np.arange(len(rows)), np.arange(len(rows)) % wide.shape[-1]] = 1.0
    return found


def _ramp(wide: Array, span: tuple[float, float]) -> Array:
    return np.linspace(*span, wide.size).reshape(wide.shape)


def _alternating(wide: Array, size: float) -> Array:
    signs = 1.0 - 2.0 * (np.arange(wide.size) % 2)
    return (size * signs).reshape(wide.shape)


def _own_scale(scale: float, otherwise: float) -> float:
    return otherwise if scale == 1.0 else scale


Span = tuple[float, float]
_FILLS: dict[Fill, Callable[[Array, Span, float, Rng], Any]] = {
    "normal": lambda w, span, scale, rng: scale * rng.standard_normal(w.shape),
    "uniform": lambda w, span, scale, rng: rng.uniform(*span, w.shape),
    "zeros": lambda w, span, scale, rng: 0.0,
    "ones": lambda w, span, scale, rng: 1.0,
    "constant": lambda w, span, scale, rng: scale,
    "large": lambda w, span, scale, rng: w * _own_scale(scale, LARGE),
    "tiny": lambda w, span, scale, rng: w * _own_scale(scale, TINY),
    "alternating": lambda w, span, scale, rng: _alternating(w, scale * _size(w, span)),
    "ramp": lambda w, span, scale, rng: _ramp(w, span),
    "one_hot": lambda w, span, scale, rng: scale * _one_hot(w),
    "equal_rows": lambda w, span, scale, rng: w[..., :1, :] if w.ndim > 1 else w,
    "sorted": lambda w, span, scale, rng: np.sort(w, axis=-1) if w.ndim else w,
    "reversed": lambda w, span, scale, rng: w[..., ::-1] if w.ndim else w,
    "random_int": lambda w, span, scale, rng: np.rint(rng.uniform(*span, w.shape)),
    "lowest": lambda w, span, scale, rng: span[0],
    "highest": lambda w, span, scale, rng: span[1],
}
