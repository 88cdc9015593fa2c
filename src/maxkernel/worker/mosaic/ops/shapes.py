"""Ops that move elements without changing them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maxkernel.worker.mosaic.dtypes import numpy_dtype
from maxkernel.worker.mosaic.errors import BadArtifact, OutOfBounds, Unsupported
from maxkernel.worker.mosaic.lower import Frame, Lowering, Step, handles
from maxkernel.worker.mosaic.ops.casts import as_scalar
from maxkernel.worker.mosaic.syntax import DYNAMIC, Op


@handles("vector.broadcast", "vector.splat", effect="view")
def broadcast(op: Op, c: Lowering) -> Step:
    """A scalar or vector repeated along leading dimensions and those of extent one."""
    (a,), (o,) = op.operands, op.results
    shape, dtype = c.type(o).shape, numpy_dtype(c.type(o).element)
    if c.type(a).kind == "scalar":

        def scalar(r: Frame) -> None:
            r[o] = np.broadcast_to(np.asarray(r[a], dtype), shape)

        return scalar

    def vector(r: Frame) -> None:
        r[o] = np.broadcast_to(r[a], shape)

    return vector


@handles("vector.shape_cast", "tpu.reshape", effect="view")
def reshape(op: Op, c: Lowering) -> Step:
    """Row-major reshape."""
    (a,), (o,) = op.operands, op.results
    shape = c.type(o).shape

    def step(r: Frame) -> None:
        r[o] = r[a].reshape(shape)

    return step


@handles("tpu.relayout", "tpu.mask_cast", "tpu.assume_layout", effect="view")
def same(op: Op, c: Lowering) -> Step:
    """Changes of physical layout only."""
    (a,), (o,) = op.operands, op.results
    if c.type(a) != c.type(o):
        raise Unsupported(f"{op.name} from {c.type(a)} to {c.type(o)}")

    def step(r: Frame) -> None:
        r[o] = r[a]

    return step


@handles("tpu.transpose", "vector.transpose", effect="view")
def transpose(op: Op, c: Lowering) -> Step:
    """Permutation of dimensions."""
    (a,), (o,) = op.operands, op.results
    order = op.integers("permutation")

    def step(r: Frame) -> None:
        r[o] = r[a].transpose(order)

    return step


@handles("vector.extract", effect="view")
def extract(op: Op, c: Lowering) -> Step:
    """An element, or the vector below leading positions."""
    (a, *dynamic), (o,) = op.operands, op.results
    static, t = op.integers("static_position"), c.type(o)

    def step(r: Frame) -> None:
        given = iter(dynamic)
        at = tuple(r[next(given)] if p == DYNAMIC else p for p in static)
        if any(not 0 <= p < n for p, n in zip(at, r[a].shape, strict=False)):
            raise OutOfBounds(f"element {at} of a vector of shape {r[a].shape}")
        found = r[a][at]
        r[o] = as_scalar(found, t.element) if t.kind == "scalar" else found

    return step


@handles("vector.insert")
def insert(op: Op, c: Lowering) -> Step:
    """A copy of a vector with one element or sub-vector replaced."""
    (value, a, *dynamic), (o,) = op.operands, op.results
    static = op.integers("static_position")

    def step(r: Frame) -> None:
        given = iter(dynamic)
        at = tuple(r[next(given)] if p == DYNAMIC else p for p in static)
        if any(not 0 <= p < n for p, n in zip(at, r[a].shape, strict=False)):
            raise OutOfBounds(f"element {at} of a vector of shape {r[a].shape}")
        found = r[a].copy()
        found[at] = r[value]
        r[o] = found

    return step


def _numbers(op: Op, name: str) -> tuple[int, ...]:
    value = op.attrs.get(name, ())
    if not isinstance(value, tuple):
        raise BadArtifact(f"attribute {name} is not an array", op=op.name)
    return tuple(int(n) for n in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


@handles("vector.extract_strided_slice", effect="view")
def extract_slice(op: Op, c: Lowering) -> Step:
    """A rectangular part of a vector."""
    (a,), (o,) = op.operands, op.results
    starts, sizes, strides = (_numbers(op, n) for n in ("offsets", "sizes", "strides"))
    index = tuple(
        slice(at, at + (n - 1) * by + 1, by)
        for at, n, by in zip(starts, sizes, strides, strict=True)
    )
    for at, n, by, extent in zip(starts, sizes, strides, c.type(a).shape, strict=False):
        if at < 0 or at + (n - 1) * by + 1 > extent:
            raise OutOfBounds(f"a slice {starts} + {sizes} of a vector {c.type(a)}")

    def step(r: Frame) -> None:
        r[o] = r[a][index]

    return step


@handles("vector.insert_strided_slice")
def insert_slice(op: Op, c: Lowering) -> Step:
    """A copy of a vector with a rectangular part replaced."""
    (value, a), (o,) = op.operands, op.results
    starts, strides = _numbers(op, "offsets"), _numbers(op, "strides")
    if any(by != 1 for by in strides):
        raise Unsupported("an insertion with strides")
    part, whole = c.type(value).shape, c.type(a).shape
    sizes = (1,) * (len(whole) - len(part)) + part
    index = tuple(slice(at, at + n) for at, n in zip(starts, sizes, strict=True))
    if any(i.start < 0 or i.stop > n for i, n in zip(index, whole, strict=True)):
        raise OutOfBounds(f"a slice {starts} + {sizes} of a vector {c.type(a)}")

    def step(r: Frame) -> None:
        found = r[a].copy()
        found[index] = r[value]
        r[o] = found

    return step


@handles("tpu.concatenate")
def concatenate(op: Op, c: Lowering) -> Step:
    """Vectors joined along a dimension."""
    sources, (o,) = op.operands, op.results
    axis = op.integer("dimension")

    def step(r: Frame) -> None:
        r[o] = np.concatenate([r[s] for s in sources], axis)

    return step


@handles("tpu.repeat")
def repeat(op: Op, c: Lowering) -> Step:
    """A vector repeated as a whole along a dimension."""
    (a,), (o,) = op.operands, op.results
    axis, times = op.integer("dimension"), op.integer("times")

    def step(r: Frame) -> None:
        r[o] = np.concatenate([r[a]] * times, axis)

    return step


@handles("tpu.iota")
def iota(op: Op, c: Lowering) -> Step:
    """Positions along the given dimensions, counted in row-major order over them."""
    (o,) = op.results
    t, axes = c.type(o), op.integers("dimensions")
    dims = tuple(t.shape[a] for a in axes)
    dtype = numpy_dtype(t.element)

    def step(r: Frame) -> None:
        counts = np.arange(math.prod(dims)).astype(dtype).reshape(dims)
        order = np.argsort(axes)
        counts = counts.transpose(order)
        shape = tuple(n if a in axes else 1 for a, n in enumerate(t.shape))
        r[o] = np.broadcast_to(counts.reshape(shape), t.shape)

    return step


@handles("tpu.dynamic_rotate", "tpu.rotate")
def rotate(op: Op, c: Lowering) -> Step:
    """Cyclic shift towards higher positions, by an amount that may grow along another dimension."""
    a, *amounts = op.operands
    (o,) = op.results
    axis = op.integer("dimension")
    stride, along = op.attrs.get("stride"), op.attrs.get("stride_dimension")
    fixed = 0 if amounts else op.integer("amount")

    def shift(r: Frame) -> int:
        return r[amounts[0]] if amounts else fixed

    if stride is None or along is None:

        def step(r: Frame) -> None:
            r[o] = np.roll(r[a], shift(r), axis)

        return step

    def skewed(r: Frame) -> None:
        x: Any = r[a]
        rows = [
            np.roll(x.take([i], along), shift(r) + i * stride, axis) for i in range(x.shape[along])
        ]
        r[o] = np.concatenate(rows, along)

    return skewed


@handles("tpu.create_mask", "vector.create_mask")
def create_mask(op: Op, c: Lowering) -> Step:
    """True inside a box."""
    (o,) = op.results
    shape = c.type(o).shape
    if op.name == "tpu.create_mask":
        lows, highs = op.groups()
    else:
        lows, highs = (), op.operands

    def step(r: Frame) -> None:
        found = np.ones(shape, np.bool_)
        for axis, n in enumerate(shape):
            at = np.arange(n).reshape([-1 if k == axis else 1 for k in range(len(shape))])
            low = r[lows[axis]] if lows else 0
            found &= (at >= low) & (at < r[highs[axis]])
        r[o] = found

    return step
