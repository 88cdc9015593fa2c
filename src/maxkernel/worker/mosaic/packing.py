"""Reinterpreting elements of one width as elements of another, the way the TPU's tiles pack them.

Narrow elements lie along the second minor dimension, lowest bits first: row `2i` of a bf16 array
is the low half of row `i` of its 32-bit form.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maxkernel.worker.mosaic.dtypes import UNSIGNED, bits, numpy_dtype
from maxkernel.worker.mosaic.errors import BadArtifact

Array = np.ndarray[Any, Any]


def recast(x: Array, source: str, target: str) -> Array:
    """The bits of `x` (element type `source`) as elements of type `target`; always a copy."""
    before, after = bits(source), bits(target)
    if before != after and (x.ndim < 2 or x.shape[-2] * before % after):
        raise BadArtifact(f"a bitcast from {source}{x.shape} to {target}")
    if before == after:
        return _bits(x, source).view(numpy_dtype(target))
    if before < after:
        return _widen(x, source, target, after // before)
    return _narrow(x, source, target, before // after)


def _bits(x: Array, element: str) -> Array:
    """Unsigned integers with the element's bits; a byte each below eight bits."""
    width = bits(element)
    if width < 8:
        return (np.ascontiguousarray(x).view(np.uint8) & ((1 << width) - 1)).astype(np.uint8)
    return np.array(x, order="C").view(UNSIGNED[f"i{width}"])


def _from_bits(x: Array, element: str) -> Array:
    width = bits(element)
    if width >= 8:
        return x.astype(UNSIGNED[f"i{width}"]).view(numpy_dtype(element))
    if element.startswith("i"):
        return x.astype(np.uint8).view(UNSIGNED[element]).astype(numpy_dtype(element))
    return x.astype(np.uint8).view(numpy_dtype(element))


def _widen(x: Array, source: str, target: str, ways: int) -> Array:
    wide = UNSIGNED[f"i{bits(target)}"]
    rows = _bits(x, source).reshape(*x.shape[:-2], x.shape[-2] // ways, ways, x.shape[-1])
    found = np.zeros((*x.shape[:-2], x.shape[-2] // ways, x.shape[-1]), wide)
    for k in range(ways):
        found |= rows[..., k, :].astype(wide) << wide(k * bits(source))
    return _from_bits(found, target)


def _narrow(x: Array, source: str, target: str, ways: int) -> Array:
    width = bits(target)
    whole = _bits(x, source)
    mask = whole.dtype.type((1 << width) - 1)
    parts = [(whole >> whole.dtype.type(k * width)) & mask for k in range(ways)]
    stacked = np.stack(parts, -2)
    return _from_bits(stacked.reshape(*x.shape[:-2], x.shape[-2] * ways, x.shape[-1]), target)
