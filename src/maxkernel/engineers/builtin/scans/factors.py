"""A product of terms, taken apart: its factors, what it is divided by, and where it is zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from maxkernel.engineers.builtin.attention.masks import BLOCKED
from maxkernel.engineers.builtin.axes import Axis, Dim, Unsupported
from maxkernel.engineers.builtin.build import Builder
from maxkernel.engineers.builtin.terms import Program

Condition = tuple[int, bool]
"""A term of kind bool and what it has to be."""


@dataclass(frozen=True)
class Product:
    """scale * factors / divisors where every condition of `seen` is as it says, else 0."""

    scale: float = 1.0
    factors: tuple[int, ...] = ()
    divisors: tuple[int, ...] = ()
    seen: tuple[Condition, ...] = ()

    def times(self, other: Product) -> Product:
        """The product of both."""
        return Product(
            self.scale * other.scale,
            self.factors + other.factors,
            self.divisors + other.divisors,
            self.seen + other.seen,
        )

    def without_divisors(self) -> Product:
        """The same before any division, in an order that does not depend on how it is written."""
        return Product(self.scale, tuple(sorted(self.factors)), (), tuple(sorted(set(self.seen))))


def read_product(program: Program, term: int) -> Product:
    """Takes products, quotients, signs and masks of a term apart."""
    t = program[term]
    value = program.literal(term)
    if value is not None and t.kind == "float":
        return Product(float(value))
    if t.op == "mul":
        return read_product(program, t.args[0]).times(read_product(program, t.args[1]))
    if t.op == "neg":
        return Product(-1.0).times(read_product(program, t.args[0]))
    if t.op == "div":
        return read_product(program, t.args[0]).times(_inverse(program, t.args[1]))
    if t.op == "where" and program.literal(t.args[2]) == 0:
        return read_product(program, t.args[1]).times(Product(seen=((t.args[0], True),)))
    if t.op == "where" and program.literal(t.args[1]) == 0:
        return read_product(program, t.args[2]).times(Product(seen=((t.args[0], False),)))
    if t.op == "to_float" and program[t.args[0]].kind == "bool":
        return Product(seen=((t.args[0], True),))
    return Product(factors=(term,))


def _inverse(program: Program, term: int) -> Product:
    value = program.literal(term)
    if value:
        return Product(1.0 / float(value))
    return Product(divisors=(term,))


@dataclass(frozen=True)
class Exponent:
    """What a decay exp(...) or base ** (...) raises: a term (times log(base)) under masks."""

    term: int
    base: int | None
    seen: tuple[Condition, ...]


def read_exponent(program: Program, factor: int) -> Exponent | None:
    """The exponent of a factor, with masks that send it to minus infinity; None without one."""
    t = program[factor]
    if t.op not in ("exp", "pow"):
        return None
    inner, base = (t.args[0], None) if t.op == "exp" else (t.args[1], t.args[0])
    seen: list[Condition] = []
    while program[inner].op == "where":
        condition, yes, no = program[inner].args
        if _blocked(program, no):
            seen.append((condition, True))
            inner = yes
        elif _blocked(program, yes):
            seen.append((condition, False))
            inner = no
        else:
            break
    return Exponent(inner, base, tuple(seen))


def _blocked(program: Program, term: int) -> bool:
    value = program.literal(term)
    return value is not None and float(value) <= BLOCKED


@dataclass(frozen=True)
class _Leaf:
    """sign * factors * term, where the factors depend on neither rows nor columns."""

    sign: int
    factors: tuple[int, ...]
    term: int


def step_of(program: Program, exponent: Exponent, row: Axis, col: Axis) -> int:
    """The term, along rows at most, whose running sum f has exponent = f(row) - f(column).

    Raises Unsupported unless the exponent is such a difference for every column up to the row.
    """
    build = Builder(program)
    leaves = _leaves(program, exponent.term, row, col)
    rows = [leaf for leaf in leaves if row in program[leaf.term].axes]
    cols = [leaf for leaf in leaves if col in program[leaf.term].axes]
    held = exponent.base is not None and program[exponent.base].axes & {row, col}
    if held or not rows or len(rows) != len(cols):
        raise Unsupported("a decay is no difference between two positions")
    total: int | None = None
    for leaf in rows:
        twin = next((c for c in cols if _opposite(program, leaf, c, row, col)), None)
        if twin is None:
            raise Unsupported("a decay is no difference between two positions")
        cols.remove(twin)
        step = build.literal(float(leaf.sign))
        if program[leaf.term].op == "cumsum":
            step = build.apply("mul", (step, program[leaf.term].args[0]))
        for factor in leaf.factors:
            step = build.apply("mul", (step, factor))
        total = step if total is None else build.apply("add", (total, step))
    assert total is not None
    if exponent.base is not None:
        total = build.apply("mul", (total, build.apply("log", (exponent.base,))))
    return total


def _leaves(program: Program, term: int, row: Axis, col: Axis) -> list[_Leaf]:
    t, across = program[term], {row, col}
    if not t.axes & across:
        raise Unsupported("a decay holds something that does not depend on positions")
    if t.op in ("iota", "cumsum"):
        (axis,) = t.attr("over") if len(t.attr("over")) == 1 else (None,)
        if axis not in across or (t.op == "cumsum" and t.attr("reverse")):
            raise Unsupported("a decay follows another order than positions")
        return [_Leaf(1, (), term)]
    if t.op == "to_float":
        return _leaves(program, t.args[0], row, col)
    if t.op == "abs" or (t.op == "max" and program.literal(t.args[1]) == 0):
        inner = _leaves(program, t.args[0], row, col)
        if not _is_distance(program, inner, row):
            raise Unsupported("a decay holds a bound that is no distance")
        return inner
    if t.op in ("add", "sub", "neg"):
        found = [_leaves(program, a, row, col) for a in t.args]
        minus = found[-1] if t.op in ("sub", "neg") else []
        plus = [leaf for leaves in found for leaf in leaves if leaves is not minus]
        return plus + [_Leaf(-leaf.sign, leaf.factors, leaf.term) for leaf in minus]
    if t.op == "mul":
        for inner, factor in (t.args, t.args[::-1]):
            if not program[factor].axes & across:
                leaves = _leaves(program, inner, row, col)
                return [_Leaf(n.sign, (*n.factors, factor), n.term) for n in leaves]
    raise Unsupported(f"a decay holds `{t.op}`")


def _is_distance(program: Program, leaves: list[_Leaf], row: Axis) -> bool:
    """Whether the leaves are row - column, which is never negative where it is seen."""
    signs = {n.sign * (1 if program[n.term].axes == frozenset((row,)) else -1) for n in leaves}
    plain = all(program[n.term].op == "iota" and not n.factors for n in leaves)
    return plain and len(leaves) == 2 and signs == {1}


def _opposite(program: Program, a: _Leaf, b: _Leaf, row: Axis, col: Axis) -> bool:
    return (
        a.sign == -b.sign
        and sorted(a.factors) == sorted(b.factors)
        and _same(program, a.term, b.term, row, col)
    )


def _same(program: Program, a: int, b: int, row: Axis, col: Axis) -> bool:
    """Whether two terms are one expression, the second along columns instead of rows."""
    if a == b:
        return row not in program[a].axes
    x, y = program[a], program[b]
    if (x.op, x.kind, len(x.args)) != (y.op, y.kind, len(y.args)):
        return False
    if _moved(x.attrs, row, col) != y.attrs:
        return False
    return all(_same(program, i, j, row, col) for i, j in zip(x.args, y.args, strict=True))


def _moved(attrs: tuple[tuple[str, Any], ...], row: Axis, col: Axis) -> tuple[tuple[str, Any], ...]:
    """Attributes with one axis in place of another, wherever axes are named."""

    def dim(axes: Dim) -> Dim:
        return tuple(col if axis == row else axis for axis in axes)

    found: list[tuple[str, Any]] = []
    for name, value in attrs:
        if name == "over":
            value = dim(value)
        elif name == "dims":
            value = tuple(dim(d) for d in value)
        found.append((name, value))
    return tuple(found)
