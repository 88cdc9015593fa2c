"""StableHLO operations that numpy does exactly: constants, reshapes, slices, float casts."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from maxkernel.worker.mosaic.dtypes import FLOATS, tensor_dtype
from maxkernel.worker.mosaic.errors import MosaicError
from maxkernel.worker.mosaic.memory import Array
from maxkernel.worker.mosaic.read import Value, read_attr, read_type

Do = Callable[[list[Array]], Any]


def _constant(op: ir.Operation) -> Do | None:
    kind = read_type(op.results[0].type)
    dtype = tensor_dtype(kind.element)
    attr: Any = op.attributes["value"]
    if dtype is None or not getattr(attr, "is_splat", False):
        return None
    value = np.asarray(attr.get_splat_value().value)
    if dtype.kind == "u":
        value = value.astype(np.int64)
    found = np.broadcast_to(value.astype(dtype), kind.shape)
    return lambda _: found


def _broadcast(op: ir.Operation) -> Do:
    shape = read_type(op.results[0].type).shape
    dims = read_attr(op.attributes["broadcast_dimensions"])

    def do(a: list[Array]) -> Any:
        full = [1] * len(shape)
        for k, d in enumerate(dims):
            full[d] = a[0].shape[k]
        order = np.argsort(dims) if len(dims) else ()
        return np.broadcast_to(a[0].transpose(order).reshape(full), shape)

    return do


def _slice(op: ir.Operation) -> Do:
    names = ("start_indices", "limit_indices", "strides")
    starts, limits, strides = (read_attr(op.attributes[n]) for n in names)
    index = tuple(slice(a, b, c) for a, b, c in zip(starts, limits, strides, strict=True))
    return lambda a: a[0][index]


def _convert(op: ir.Operation) -> Do | None:
    source, target = read_type(op.operands[0].type).element, read_type(op.results[0].type).element
    if source not in FLOATS or target not in FLOATS:
        return None
    return lambda a: a[0].astype(FLOATS[target])


def _do(op: ir.Operation) -> Do | None:
    if op.name == "stablehlo.constant":
        return _constant(op)
    if op.name == "stablehlo.reshape":
        shape = read_type(op.results[0].type).shape
        return lambda a: a[0].reshape(shape)
    if op.name == "stablehlo.transpose":
        order = read_attr(op.attributes["permutation"])
        return lambda a: a[0].transpose(order)
    if op.name == "stablehlo.broadcast_in_dim":
        return _broadcast(op)
    if op.name == "stablehlo.slice":
        return _slice(op)
    if op.name == "stablehlo.concatenate":
        axis = read_attr(op.attributes["dimension"])
        return lambda a: np.concatenate(a, axis)
    if op.name == "stablehlo.convert":
        return _convert(op)
    return None


def simple_run(
    operations: Sequence[ir.Operation],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
) -> Callable[[Sequence[Array]], Sequence[Array]] | None:
    """A numpy evaluation of these operations, or None when one of them is not simple."""
    try:
        steps = [(op, _do(op)) for op in operations]
    except MosaicError:
        return None
    done = [(op, do) for op, do in steps if do is not None]
    if len(done) != len(steps):
        return None

    def run(arrays: Sequence[Array]) -> Sequence[Array]:
        values: dict[Value, Array] = dict(zip(inputs, arrays, strict=True))
        for op, do in done:
            values[op.results[0]] = do([values[v] for v in op.operands])
        return [values[v] for v in outputs]

    return run
