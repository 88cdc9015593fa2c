"""Floating-point arithmetic and functions.

bf16 and narrower values are computed in f32 and rounded to nearest even, which equals the exact
result rounded once for +, -, * and /.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special  # pyright: ignore[reportMissingTypeStubs]

from maxkernel.worker.mosaic.dtypes import FLOATS
from maxkernel.worker.mosaic.errors import Unsupported
from maxkernel.worker.mosaic.lower import Frame, Lowering, Step, handles
from maxkernel.worker.mosaic.syntax import Op

_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.divf": np.divide,
    "arith.remf": np.fmod,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
    "arith.maxnumf": np.fmax,
    "arith.minnumf": np.fmin,
    "math.powf": np.power,
    "math.atan2": np.arctan2,
    "math.copysign": np.copysign,
}
_UNARY: dict[str, Callable[[Any], Any]] = {
    "arith.negf": np.negative,
    "math.absf": np.abs,
    "math.exp": np.exp,
    "math.exp2": np.exp2,
    "math.expm1": np.expm1,
    "math.log": np.log,
    "math.log2": np.log2,
    "math.log1p": np.log1p,
    "math.sqrt": np.sqrt,
    "math.rsqrt": lambda x: np.reciprocal(np.sqrt(x)),
    "math.cbrt": np.cbrt,
    "math.tanh": np.tanh,
    "math.sin": np.sin,
    "math.cos": np.cos,
    "math.tan": np.tan,
    "math.sinh": np.sinh,
    "math.cosh": np.cosh,
    "math.asin": np.arcsin,
    "math.acos": np.arccos,
    "math.atan": np.arctan,
    "math.floor": np.floor,
    "math.ceil": np.ceil,
    "math.trunc": np.trunc,
    "math.roundeven": np.rint,
    "math.round": lambda x: np.copysign(np.floor(np.abs(x) + np.float32(0.5)), x),
    "math.erf": special.erf,  # pyright: ignore[reportUnknownMemberType]
}


def narrow(element: str) -> Any:
    """The dtype to round to after computing in f32; None for f32 and f64."""
    if element not in FLOATS:
        raise Unsupported(f"floating-point arithmetic on {element}")
    return None if element in ("f32", "f64") else FLOATS[element]


@handles(*_BINARY)
def binary(op: Op, c: Lowering) -> Step:
    """Two operands."""
    fn = _BINARY[op.name]
    (a, b), (o,) = op.operands, op.results
    dtype = narrow(c.type(o).element)
    if dtype is None:

        def step(r: Frame) -> None:
            r[o] = fn(r[a], r[b])

        return step

    def rounded(r: Frame) -> None:
        r[o] = fn(r[a].astype(np.float32), r[b].astype(np.float32)).astype(dtype)

    return rounded


@handles(*_UNARY)
def unary(op: Op, c: Lowering) -> Step:
    """One operand."""
    fn = _UNARY[op.name]
    (a,), (o,) = op.operands, op.results
    dtype = narrow(c.type(o).element)
    if dtype is None:

        def step(r: Frame) -> None:
            r[o] = fn(r[a])

        return step

    def rounded(r: Frame) -> None:
        r[o] = fn(r[a].astype(np.float32)).astype(dtype)

    return rounded


@handles("math.fma")
def fused(op: Op, c: Lowering) -> Step:
    """a * b + d, rounded once (computed in double)."""
    (a, b, d), (o,) = op.operands, op.results
    dtype = narrow(c.type(o).element) or np.float32

    def step(r: Frame) -> None:
        x, y, z = (np.asarray(r[v]).astype(np.float64) for v in (a, b, d))
        r[o] = (x * y + z).astype(dtype)[()]

    return step


@handles("math.fpowi")
def power(op: Op, c: Lowering) -> Step:
    """A float to an integer power."""
    (a, b), (o,) = op.operands, op.results
    dtype = narrow(c.type(o).element) or np.float32

    def step(r: Frame) -> None:
        base = np.asarray(r[a]).astype(np.float64)
        r[o] = np.power(base, np.asarray(r[b], np.float64)).astype(dtype)[()]

    return step


@handles("tpu.reciprocal")
def reciprocal(op: Op, c: Lowering) -> Step:
    """1 / x; the approximate form keeps the eight bits of a bf16, the least the hardware gives."""
    (a,), (o,) = op.operands, op.results
    dtype = FLOATS[c.type(o).element]
    if not op.flag("approx"):

        def exact(r: Frame) -> None:
            r[o] = np.reciprocal(r[a].astype(np.float32)).astype(dtype)

        return exact
    bf16 = FLOATS["bf16"]

    def rough(r: Frame) -> None:
        x = r[a].astype(bf16).astype(np.float32)
        r[o] = np.reciprocal(x).astype(bf16).astype(dtype)

    return rough


@handles("tpu.weird")
def weird(op: Op, c: Lowering) -> Step:
    """True where the value is NaN or infinite."""
    (a,), (o,) = op.operands, op.results
    scalar = c.type(o).kind == "scalar"

    def step(r: Frame) -> None:
        found = ~np.isfinite(np.asarray(r[a]).astype(np.float32))
        r[o] = bool(found) if scalar else found

    return step


@handles("math.isnan", "math.isinf", "math.isfinite")
def classify(op: Op, c: Lowering) -> Step:
    """NaN and infinity tests."""
    (a,), (o,) = op.operands, op.results
    fn = {"math.isnan": np.isnan, "math.isinf": np.isinf, "math.isfinite": np.isfinite}[op.name]
    scalar = c.type(o).kind == "scalar"

    def step(r: Frame) -> None:
        found = fn(np.asarray(r[a]).astype(np.float32))
        r[o] = bool(found) if scalar else found

    return step


_ORDERED: dict[int, Callable[[Any, Any], Any]] = {
    1: np.equal,
    2: np.greater,
    3: np.greater_equal,
    4: np.less,
    5: np.less_equal,
    6: np.not_equal,
    7: lambda a, b: (a == a) & (b == b),
    8: lambda a, b: ~((a < b) | (a > b)),
    9: lambda a, b: ~(a <= b),
    10: lambda a, b: ~(a < b),
    11: lambda a, b: ~(a >= b),
    12: lambda a, b: ~(a > b),
    13: np.not_equal,
    14: lambda a, b: (a != a) | (b != b),
}
"""MLIR's predicates, ordered (1-7) and unordered (8-14).

Predicate 6, "ordered and not equal", is true for NaN: the compiler turns it into
`vcmp.ne.f32.partialorder` (seen in the final bundles of a v6e kernel), and jax lowers `x != x` to
it."""


@handles("arith.cmpf")
def compare(op: Op, c: Lowering) -> Step:
    """Floating-point comparison."""
    (a, b), (o,) = op.operands, op.results
    predicate = op.integer("predicate")
    fn = _ORDERED.get(predicate)
    if fn is None:
        raise Unsupported(f"comparison predicate {predicate}")
    dtype = narrow(c.type(a).element)
    scalar = c.type(o).kind == "scalar"

    def step(r: Frame) -> None:
        x, y = r[a], r[b]
        if dtype is not None:
            x, y = x.astype(np.float32), y.astype(np.float32)
        found = fn(x, y)
        r[o] = bool(found) if scalar else found

    return step
