"""Matrix products (`tpu.matmul`).

Products of bf16 and narrower floats are exact in f32 and summed in f32, as the MXU does. Integer
products are summed exactly in int32: partial sums of at most 1024 terms of int8 x int8 stay below
2**24, so they are computed by the f32 product without error.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxkernel.worker.mosaic import blas
from maxkernel.worker.mosaic.dtypes import FLOATS, bits, is_float, numpy_dtype
from maxkernel.worker.mosaic.errors import BadArtifact, Unsupported
from maxkernel.worker.mosaic.lower import Frame, Lowering, Step, handles, splat_of
from maxkernel.worker.mosaic.syntax import Op

INTEGER_CHUNK = 1024
"""2**24 / 2**14: terms of an int8 dot product that a float32 holds exactly."""

_LIST = re.compile(r"\[([\d, ]*)\]")


@dataclass(frozen=True, slots=True)
class Dims:
    """Dimension numbers: contracted, free and batch dimensions of both sides, and the order of the
    result's dimensions as (side, dimension) pairs."""

    lhs_contract: tuple[int, ...]
    rhs_contract: tuple[int, ...]
    lhs_free: tuple[int, ...]
    rhs_free: tuple[int, ...]
    order: tuple[tuple[int, int], ...]
    lhs_batch: tuple[int, ...]
    rhs_batch: tuple[int, ...]


def read_dims(op: Op) -> Dims:
    """The dimension numbers of a `tpu.matmul`; plain `lhs @ rhs` when it has none."""
    text = op.text("dimension_numbers")
    if not text:
        return Dims((1,), (0,), (0,), (1,), ((0, 0), (1, 1)), (), ())
    lists = [tuple(int(n) for n in g.split(",") if n.strip()) for g in _LIST.findall(text)]
    if len(lists) != 7 or len(lists[4]) % 2:
        raise BadArtifact(f"dimension numbers {text}")
    order = tuple(zip(lists[4][::2], lists[4][1::2], strict=True))
    return Dims(lists[0], lists[1], lists[2], lists[3], order, lists[5], lists[6])


def _result_order(d: Dims) -> tuple[int, ...]:
    """Permutation from (batch, lhs free, rhs free) to the result's order."""
    batch = len(d.lhs_batch)
    place: dict[tuple[int, int], int] = {}
    for k in range(batch):
        place[0, d.lhs_batch[k]] = place[1, d.rhs_batch[k]] = k
    for k, axis in enumerate(d.lhs_free):
        place[0, axis] = batch + k
    for k, axis in enumerate(d.rhs_free):
        place[1, axis] = batch + len(d.lhs_free) + k
    try:
        return tuple(place[pair] for pair in d.order)
    except KeyError as error:
        raise BadArtifact(f"a result dimension {error} that neither side has") from error


def _integer_product(a: Any, b: Any) -> Any:
    total: Any = np.int32(0)
    for at in range(0, a.shape[-1], INTEGER_CHUNK):
        x = a[..., at : at + INTEGER_CHUNK].astype(np.float32)
        y = b[..., at : at + INTEGER_CHUNK, :].astype(np.float32)
        total = total + np.matmul(x, y).astype(np.int32)
    return total


def _float_product(rounded: bool) -> Callable[[Any, Any], Any]:
    bf16 = FLOATS["bf16"]

    def product(a: Any, b: Any) -> Any:
        if rounded:
            a, b = a.astype(bf16), b.astype(bf16)
        return blas.product(a.astype(np.float32, copy=False), b.astype(np.float32, copy=False))

    return product


def _product(op: Op, c: Lowering) -> Callable[[Any, Any], Any]:
    left, right = (c.type(v).element for v in op.operands[:2])
    if is_float(left) and is_float(right):
        default = "fp32" not in op.text("precision")
        rounded = default and c.options.f32_matmul == "bf16" and "f32" in (left, right)
        return _float_product(rounded)
    if is_float(left) or is_float(right) or max(bits(left), bits(right)) > 8:
        raise Unsupported(f"a product of {left} and {right}")
    return _integer_product


@handles("tpu.matmul")
def matmul(op: Op, c: Lowering) -> Step:
    """acc + lhs @ rhs."""
    (a, b, acc), (o,) = op.operands, op.results
    if op.flag("transpose_lhs") or op.flag("transpose_rhs"):
        raise Unsupported("a matmul with transpose flags beside dimension numbers")
    d = read_dims(op)
    product = _product(op, c)
    out = c.type(o)
    dtype = numpy_dtype(out.element)
    wide = np.float32 if is_float(out.element) else np.int32
    left = (*d.lhs_batch, *d.lhs_free, *d.lhs_contract)
    right = (*d.rhs_batch, *d.rhs_contract, *d.rhs_free)
    shapes = c.type(a).shape, c.type(b).shape
    batch = tuple(shapes[0][k] for k in d.lhs_batch)
    rows = tuple(shapes[0][k] for k in d.lhs_free)
    columns = tuple(shapes[1][k] for k in d.rhs_free)
    depth = int(np.prod([shapes[0][k] for k in d.lhs_contract]))
    matrix = len(d.lhs_free) == len(d.rhs_free) == len(d.lhs_contract) == 1
    order = _result_order(d)
    skip = splat_of(c.known(acc)) == 0

    def step(r: Frame) -> None:
        x, y = r[a].transpose(left), r[b].transpose(right)
        if not matrix:
            x, y = x.reshape(*batch, -1, depth), y.reshape(*batch, depth, -1)
        found = product(x, y)
        if not matrix:
            found = found.reshape(*batch, *rows, *columns)
        found = found.transpose(order)
        if not skip:
            found = found + r[acc].astype(wide)
        r[o] = found.astype(dtype, copy=False)

    return step
