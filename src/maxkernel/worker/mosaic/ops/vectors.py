"""Reductions, gathers, and reinterpretation of packed elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from maxkernel.worker.mosaic.dtypes import (
    FLOATS,
    INTEGERS,
    UNSIGNED,
    bits,
    is_float,
    numpy_dtype,
)
from maxkernel.worker.mosaic.errors import OutOfBounds, Unsupported
from maxkernel.worker.mosaic.lower import Frame, Lowering, Step, handles, splat_of
from maxkernel.worker.mosaic.ops.integers import unsigned_view
from maxkernel.worker.mosaic.packing import recast
from maxkernel.worker.mosaic.syntax import Op, Type

_REDUCTIONS: dict[str, Any] = {
    "add": np.add,
    "mul": np.multiply,
    "maximumf": np.maximum,
    "minimumf": np.minimum,
    "maxnumf": np.fmax,
    "minnumf": np.fmin,
    "maxsi": np.maximum,
    "minsi": np.minimum,
    "maxui": np.maximum,
    "minui": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "sum": np.add,
    "max": np.maximum,
    "min": np.minimum,
}


def _kind(op: Op) -> str:
    text = op.text("kind")
    return text[text.find("<") + 1 : text.rfind(">")]


def _neutral(kind: str, value: Any) -> bool:
    first = splat_of(value)
    if first is None:
        return False
    if kind in ("maximumf", "maxnumf"):
        return bool(first == -np.inf)
    if kind in ("minimumf", "minnumf"):
        return bool(first == np.inf)
    return kind == "add" and bool(first == 0) and not np.signbit(first)


@handles("vector.multi_reduction")
def reduce(op: Op, c: Lowering) -> Step:
    """Reduction over dimensions, started from an accumulator; narrow floats are summed in f32."""
    (a, acc), (o,) = op.operands, op.results
    kind, axes, t = _kind(op), op.integers("reduction_dims"), c.type(a)
    fn = _REDUCTIONS.get(kind)
    if fn is None:
        raise Unsupported(f"reduction {kind}")
    dtype = numpy_dtype(t.element)
    work = _working_type(t, kind)
    skip = _neutral(kind, c.known(acc))
    scalar = c.type(o).kind == "scalar"

    def step(r: Frame) -> None:
        found = fn.reduce(work(r[a]), axis=axes)
        if not skip:
            found = fn(found, work(np.asarray(r[acc], dtype)))
        if found.dtype != dtype:
            found = found.view(dtype) if found.dtype.kind == "u" else found.astype(dtype)
        r[o] = found[()] if scalar else np.asarray(found)

    return step


def _working_type(t: Type, kind: str) -> Callable[[Any], Any]:
    if is_float(t.element) and t.element not in ("f32", "f64"):
        return lambda x: x.astype(np.float32)
    if kind in ("maxui", "minui"):
        return lambda x: unsigned_view(x, t.element)
    if kind in ("add", "mul") and not is_float(t.element):
        return lambda x: x.astype(np.int64)
    return lambda x: x


@handles("tpu.all_reduce")
def reduce_keep(op: Op, c: Lowering) -> Step:
    """Reduction over one dimension, broadcast back."""
    (a,), (o,) = op.operands, op.results
    kind, axis, t = _kind(op), op.integer("dim"), c.type(o)
    fn = _REDUCTIONS.get(kind)
    if fn is None or t.element != "f32":
        raise Unsupported(f"all_reduce {kind} of {t}")

    def step(r: Frame) -> None:
        r[o] = np.broadcast_to(fn.reduce(r[a], axis=axis, keepdims=True), t.shape)

    return step


@handles("tpu.reduce_index")
def reduce_index(op: Op, c: Lowering) -> Step:
    """Position of the first extreme element; NaN counts as the extreme."""
    (a,), (o,) = op.operands, op.results
    kind, axis = _kind(op), op.integer("axis")
    if kind not in ("arg_max", "arg_min"):
        raise Unsupported(f"reduce_index {kind}")
    fn = np.argmax if kind == "arg_max" else np.argmin
    float_in = is_float(c.type(a).element)
    dtype = numpy_dtype(c.type(o).element)

    def step(r: Frame) -> None:
        x = r[a].astype(np.float32) if float_in else r[a]
        r[o] = fn(x, axis).astype(dtype)

    return step


@handles("tpu.dynamic_gather")
def gather(op: Op, c: Lowering) -> Step:
    """Elements picked along one dimension by a vector of positions of the same shape."""
    (a, at), (o,) = op.operands, op.results
    axes = op.integers("dimensions")
    if len(axes) != 1:
        raise Unsupported("a gather along several dimensions")
    (axis,) = axes

    def step(r: Frame) -> None:
        x, index = r[a], r[at]
        if index.min(initial=0) < 0 or index.max(initial=0) >= x.shape[axis]:
            raise OutOfBounds(f"a gather outside dimension {axis} of a vector {x.shape}")
        r[o] = np.take_along_axis(x, index.astype(np.int64), axis)

    return step


@handles("tpu.bitcast")
def bitcast(op: Op, c: Lowering) -> Step:
    """The same bits as elements of another width."""
    (a,), (o,) = op.operands, op.results
    source, target = c.type(a), c.type(o)

    def step(r: Frame) -> None:
        r[o] = recast(r[a], source.element, target.element)

    return step


@handles("tpu.pack_elementwise")
def pack(op: Op, c: Lowering) -> Step:
    """Several vectors rounded or truncated to a narrow type and packed, first one lowest."""
    sources, (o,) = op.operands, op.results
    target: Type = op.attrs["target_type"]
    element = c.type(sources[0]).element
    out = c.type(o).element
    width = bits(target.element)
    if width < 8 or is_float(element) != is_float(target.element):
        raise Unsupported(f"packing {element} as {target}")
    whole = UNSIGNED[out]
    narrow = FLOATS[target.element] if is_float(target.element) else INTEGERS[target.element]

    def step(r: Frame) -> None:
        found = np.zeros(c.type(o).shape, whole)
        for k, source in enumerate(sources):
            lane = r[source].astype(narrow).view(UNSIGNED[f"i{width}"])
            found |= lane.astype(whole) << whole(k * width)
        r[o] = found.view(INTEGERS[out])

    return step


@handles("tpu.unpack_elementwise")
def unpack(op: Op, c: Lowering) -> Step:
    """One of the narrow vectors inside a packed one, widened (sign-extended)."""
    (a,), (o,) = op.operands, op.results
    source: Type = op.attrs["source_type"]
    index, width = op.integer("index"), bits(source.element)
    element = c.type(a).element
    target = numpy_dtype(c.type(o).element)
    if width < 8:
        raise Unsupported(f"unpacking {source}")

    def step(r: Frame) -> None:
        whole = unsigned_view(r[a], element)
        lane = (whole >> whole.dtype.type(index * width)).astype(UNSIGNED[f"i{width}"])
        r[o] = lane.view(numpy_dtype(source.element)).astype(target)

    return step
