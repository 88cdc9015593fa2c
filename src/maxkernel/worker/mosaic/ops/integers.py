"""Integer arithmetic, comparisons and selection (`arith.*i`, `arith.select`, bit counts).

Integers wrap. Division by zero gives -1 (all ones when unsigned) and the dividend as remainder, a
shift by the width or more shifts everything out: what XLA defines.
"""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from maxkernel.worker.mosaic.dtypes import INTEGERS, UNSIGNED, bits
from maxkernel.worker.mosaic.errors import Unsupported
from maxkernel.worker.mosaic.lower import Frame, Lowering, Step, handles
from maxkernel.worker.mosaic.syntax import Op

Two = Callable[[Any, Any], Any]

_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
_COMPARE: dict[str, Two] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def wrap(value: int, width: int) -> int:
    """A Python int as a signed integer of this width."""
    half = 1 << (width - 1)
    return ((value + half) & ((1 << width) - 1)) - half


def _quotient(a: int, b: int) -> int:
    if b == 0:
        return -1
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def _remainder(a: int, b: int) -> int:
    return a if b == 0 else a - b * _quotient(a, b)


_SCALAR: dict[str, Two] = {
    "addi": lambda a, b: a + b,
    "subi": lambda a, b: a - b,
    "muli": lambda a, b: a * b,
    "andi": lambda a, b: a & b,
    "ori": lambda a, b: a | b,
    "xori": lambda a, b: a ^ b,
    "divsi": _quotient,
    "remsi": _remainder,
    "floordivsi": lambda a, b: a // b if b else -1,
    "ceildivsi": lambda a, b: -(-a // b) if b else -1,
    "maxsi": max,
    "minsi": min,
    "divui": lambda a, b: a // b if b else -1,
    "remui": lambda a, b: a % b if b else a,
    "ceildivui": lambda a, b: -(-a // b) if b else -1,
    "maxui": max,
    "minui": min,
}


def _divide(a: Any, b: Any) -> Any:
    floor = np.floor_divide(a, b)
    q = floor + ((floor * b != a) & ((a < 0) != (b < 0)))
    return np.where(b == 0, np.asarray(-1, a.dtype), q.astype(a.dtype))


def _modulo(a: Any, b: Any) -> Any:
    return np.where(b == 0, a, np.fmod(a, b))


def _divide_unsigned(a: Any, b: Any) -> Any:
    ones: Any = np.iinfo(a.dtype).max
    return np.where(b == 0, ones, a // b)


_VECTOR: dict[str, Two] = {
    "addi": np.add,
    "subi": np.subtract,
    "muli": np.multiply,
    "andi": np.bitwise_and,
    "ori": np.bitwise_or,
    "xori": np.bitwise_xor,
    "divsi": _divide,
    "remsi": _modulo,
    "maxsi": np.maximum,
    "minsi": np.minimum,
    "divui": _divide_unsigned,
    "remui": _modulo,
    "maxui": np.maximum,
    "minui": np.minimum,
}
_UNSIGNED = {"divui", "remui", "ceildivui", "maxui", "minui"}
_BITWISE = {"andi", "ori", "xori"}


def unsigned_view(array: Any, element: str) -> Any:
    """The same bits as an unsigned array."""
    return np.asarray(array).view(UNSIGNED[element])


def scalar_mode(c: Lowering, value: int) -> bool:
    """True when the value is a plain Python scalar, not one lane per grid step."""
    return c.type(value).kind == "scalar" and not c.lanes


@handles(*(f"arith.{n}" for n in sorted(set(_SCALAR) | set(_VECTOR))))
def binary(op: Op, c: Lowering) -> Step:
    """Two integer operands, one result of the same type."""
    name = op.name.removeprefix("arith.")
    (a, b), (o,) = op.operands, op.results
    element = c.type(o).element
    if element == "i1" and name not in _BITWISE:
        name = {"addi": "xori", "muli": "andi", "maxui": "ori", "minui": "andi"}.get(name, "")
        if not name:
            raise Unsupported(f"{op.name} on i1")
    if scalar_mode(c, o):
        return _scalar(_SCALAR[name], name, a, b, o, element)
    return _vector(_VECTOR.get(name), name, a, b, o, element)


def _scalar(fn: Two, name: str, a: int, b: int, o: int, element: str) -> Step:
    if name in _BITWISE:

        def bitwise(r: Frame) -> None:
            r[o] = fn(r[a], r[b])

        return bitwise
    width = bits(element)
    half, mask = 1 << (width - 1), (1 << width) - 1
    if name in _UNSIGNED:

        def unsigned(r: Frame) -> None:
            r[o] = wrap(fn(r[a] & mask, r[b] & mask), width)

        return unsigned

    def step(r: Frame) -> None:
        r[o] = ((fn(r[a], r[b]) + half) & mask) - half

    return step


def _vector(fn: Two | None, name: str, a: int, b: int, o: int, element: str) -> Step:
    if fn is None:
        raise Unsupported(f"arith.{name} on vectors")
    if name in _UNSIGNED:

        def unsigned(r: Frame) -> None:
            found = fn(unsigned_view(r[a], element), unsigned_view(r[b], element))
            r[o] = found.view(INTEGERS[element])

        return unsigned

    def step(r: Frame) -> None:
        r[o] = fn(r[a], r[b])

    return step


@handles("arith.shli", "arith.shrsi", "arith.shrui")
def shift(op: Op, c: Lowering) -> Step:
    """Shifts; the amount is unsigned."""
    (a, b), (o,) = op.operands, op.results
    element = c.type(o).element
    width = bits(element)
    mask = (1 << width) - 1
    name = op.name
    if scalar_mode(c, o):

        def scalar(r: Frame) -> None:
            by = r[b] & mask
            if name == "arith.shli":
                r[o] = wrap(r[a] << by, width) if by < width else 0
            elif name == "arith.shrsi":
                r[o] = r[a] >> min(by, width - 1)
            else:
                r[o] = wrap((r[a] & mask) >> by, width) if by < width else 0

        return scalar

    def vector(r: Frame) -> None:
        amount = unsigned_view(r[b], element)
        over = amount >= width
        if name == "arith.shrsi":
            r[o] = r[a] >> np.minimum(amount, width - 1).astype(INTEGERS[element])
            return
        bare = unsigned_view(r[a], element)
        by = np.where(over, 0, amount).astype(bare.dtype)
        moved = bare << by if name == "arith.shli" else bare >> by
        r[o] = np.where(over, 0, moved).astype(bare.dtype).view(INTEGERS[element])

    return vector


@handles("arith.cmpi")
def compare(op: Op, c: Lowering) -> Step:
    """Integer comparison."""
    (a, b), (o,) = op.operands, op.results
    predicate = _PREDICATES[op.integer("predicate")]
    element = c.type(a).element
    fn = _COMPARE[predicate if predicate in ("eq", "ne") else predicate[1:]]
    if predicate[0] == "u":
        return _compare_unsigned(fn, a, b, o, element, scalar_mode(c, a))
    if element in ("i2", "i4"):

        def narrow(r: Frame) -> None:
            r[o] = fn(r[a].astype(np.int8), r[b].astype(np.int8))

        return narrow

    def step(r: Frame) -> None:
        r[o] = fn(r[a], r[b])

    return step


def _compare_unsigned(fn: Two, a: int, b: int, o: int, element: str, scalar: bool) -> Step:
    mask = (1 << bits(element)) - 1

    def one(r: Frame) -> None:
        r[o] = fn(r[a] & mask, r[b] & mask)

    def many(r: Frame) -> None:
        r[o] = fn(unsigned_view(r[a], element), unsigned_view(r[b], element))

    return one if scalar else many


@handles("arith.select", effect="view")
def select(op: Op, c: Lowering) -> Step:
    """Choice by one bit, or element by element."""
    (p, a, b), (o,) = op.operands, op.results
    if scalar_mode(c, p):

        def whole(r: Frame) -> None:
            r[o] = r[a] if r[p] else r[b]

        return whole

    def each(r: Frame) -> None:
        r[o] = np.where(r[p], r[a], r[b])

    return each


@handles("math.ctlz", "math.cttz", "math.ctpop", "math.absi")
def count(op: Op, c: Lowering) -> Step:
    """Bit counts and absolute value."""
    (a,), (o,) = op.operands, op.results
    element = c.type(o).element
    width, dtype, name = bits(element), INTEGERS[element], op.name

    def vector(x: Any) -> Any:
        u = unsigned_view(x, element)
        if name == "math.absi":
            return np.abs(x)
        if name == "math.ctpop":
            return np.bitwise_count(u)
        if name == "math.cttz":
            return np.where(u == 0, width, np.bitwise_count((u & (~u + u.dtype.type(1))) - 1))
        smear = u
        for by in (1, 2, 4, 8, 16, 32):
            if by < width:
                smear = smear | (smear >> u.dtype.type(by))
        return width - np.bitwise_count(smear).astype(np.int64)

    def step(r: Frame) -> None:
        found = vector(np.asarray(r[a], dtype)).astype(dtype)
        r[o] = int(found) if scalar_mode(c, o) else found

    return step
