"""Constants and conversions between element types."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxkernel.worker.mosaic.dtypes import FLOATS, INTEGERS, UNSIGNED, bits, is_float, numpy_dtype
from maxkernel.worker.mosaic.errors import Unsupported
from maxkernel.worker.mosaic.lower import Frame, Lowering, Step, handles
from maxkernel.worker.mosaic.ops.integers import scalar_mode, unsigned_view, wrap
from maxkernel.worker.mosaic.syntax import Op


def as_scalar(value: Any, element: str) -> Any:
    """A value as the frame keeps scalars of this element type."""
    if is_float(element):
        return np.asarray(value).astype(FLOATS[element])[()]
    if element == "i1":
        return bool(value)
    return wrap(int(value), bits(element))


@handles("arith.constant")
def constant(op: Op, c: Lowering) -> None:
    """A scalar or dense constant."""
    (o,) = op.results
    t, value = c.type(o), op.attrs.get("value")
    if t.kind == "scalar":
        found = as_scalar(value, t.element)
        c.set_constant(o, np.asarray(found) if c.lanes else found)
    elif isinstance(value, np.ndarray):
        c.set_constant(o, value)
    else:
        raise Unsupported(f"a constant of type {t}")


@handles("arith.extf", "arith.truncf", "tpu.extf")
def resize_float(op: Op, c: Lowering) -> Step:
    """Float to wider or narrower float, to nearest even."""
    return _astype(op, FLOATS[c.type(op.results[0]).element])


@handles("tpu.truncf")
def truncate(op: Op, c: Lowering) -> Step:
    """Float to narrower float with a rounding mode."""
    if "to_nearest_even" not in op.text("rounding_mode"):
        raise Unsupported(f"rounding mode {op.text('rounding_mode')}")
    return _astype(op, FLOATS[c.type(op.results[0]).element])


def _astype(op: Op, dtype: Any) -> Step:
    (a,), (o,) = op.operands, op.results

    def step(r: Frame) -> None:
        r[o] = r[a].astype(dtype)

    return step


@handles("arith.extsi", "arith.extui", "arith.trunci")
def resize_integer(op: Op, c: Lowering) -> Step:
    """Integer to wider or narrower integer."""
    (a,), (o,) = op.operands, op.results
    source, target = c.type(a).element, c.type(o).element
    signed = op.name != "arith.extui"
    if scalar_mode(c, o):
        mask = (1 << bits(source)) - 1
        to_bool = target == "i1"

        def scalar(r: Frame) -> None:
            value = int(r[a])
            if source == "i1":
                value = -value if op.name == "arith.extsi" else value
            elif not signed:
                value &= mask
            r[o] = bool(value & 1) if to_bool else wrap(value, bits(target))

        return scalar

    def vector(r: Frame) -> None:
        x = np.asarray(r[a])
        if target == "i1":
            r[o] = (x & 1).astype(np.bool_)
            return
        if not signed and source != "i1":
            x = unsigned_view(x, source)
        found = x.astype(INTEGERS[target])
        r[o] = -found if source == "i1" and op.name == "arith.extsi" else found

    return vector


@handles("arith.index_cast", "arith.index_castui", effect="view")
def index_cast(op: Op, c: Lowering) -> Step:
    """Integer to index and back."""
    (a,), (o,) = op.operands, op.results
    source, target = c.type(a).element, c.type(o).element
    width = bits(target)
    if scalar_mode(c, o):
        mask = (1 << bits(source)) - 1 if op.name == "arith.index_castui" else -1

        def scalar(r: Frame) -> None:
            r[o] = wrap(r[a] & mask, width)

        return scalar

    def vector(r: Frame) -> None:
        r[o] = np.asarray(r[a]).astype(INTEGERS[target], copy=False)

    return vector


@handles("arith.sitofp", "arith.uitofp", "tpu.sitofp", "tpu.uitofp")
def integer_to_float(op: Op, c: Lowering) -> Step:
    """Integer to float, to nearest even."""
    (a,), (o,) = op.operands, op.results
    source, dtype = c.type(a).element, FLOATS[c.type(o).element]
    unsigned = op.name.endswith("uitofp") and source != "i1"
    if "rounding_mode" in op.attrs and "to_nearest_even" not in op.text("rounding_mode"):
        raise Unsupported(f"rounding mode {op.text('rounding_mode')}")

    def step(r: Frame) -> None:
        x = np.asarray(r[a], INTEGERS[source])
        if unsigned:
            x = unsigned_view(x, source)
        r[o] = x.astype(dtype)[()]

    return step


@handles("arith.fptosi", "arith.fptoui", "tpu.fptosi", "tpu.fptoui")
def float_to_integer(op: Op, c: Lowering) -> Step:
    """Float to integer: towards zero (or as the mode says), saturating, NaN to 0."""
    (a,), (o,) = op.operands, op.results
    target = c.type(o).element
    unsigned = op.name.endswith("fptoui")
    limits = np.iinfo(UNSIGNED[target] if unsigned else numpy_dtype(target))
    mode = op.text("rounding_mode")
    if mode and "to_nearest_even" not in mode and "towards_zero" not in mode:
        raise Unsupported(f"rounding mode {mode}")
    rounding = np.rint if "to_nearest_even" in mode else np.trunc
    scalar = scalar_mode(c, o)

    def step(r: Frame) -> None:
        x = np.asarray(r[a]).astype(np.float64)
        whole = np.clip(np.nan_to_num(rounding(x), nan=0.0), limits.min, limits.max)
        found = whole.astype(np.int64).astype(limits.dtype).view(numpy_dtype(target))
        r[o] = int(found) if scalar else found

    return step


@handles("arith.bitcast")
def bitcast(op: Op, c: Lowering) -> Step:
    """The same bits as another element type of the same width."""
    (a,), (o,) = op.operands, op.results
    source, target = c.type(a).element, c.type(o).element
    scalar = scalar_mode(c, o)

    def step(r: Frame) -> None:
        found = np.asarray(r[a], numpy_dtype(source)).view(numpy_dtype(target))
        r[o] = as_scalar(found, target) if scalar else found

    return step
