"""Builds terms: equal expressions become one term, and identities are applied on the way.

Float formats are one kind here. The judge's oracle evaluates the reference in high precision, so
roundings between operations are noise: kernels compute in float32 and round once, at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from maxkernel.engineers.builtin import idioms
from maxkernel.engineers.builtin.axes import Axis
from maxkernel.engineers.builtin.terms import COMPARISONS, REDUCTIONS, Program, Term

Number = float | int | bool
_COMMUTES = frozenset({"add", "mul", "max", "min", "eq", "ne", "and", "or", "xor"})
_FOLD: dict[str, Callable[[Any, Any], Number]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "max": lambda x, y: max(x, y),
    "min": lambda x, y: min(x, y),
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
}
_FOLD_ONE: dict[str, Callable[[Any], Number]] = {
    "neg": lambda x: -x,
    "abs": lambda x: abs(x),
    "square": lambda x: x * x,
    "sqrt": lambda x: math.sqrt(x),
    "exp": lambda x: math.exp(x),
}


class Builder:
    """Appends terms to a program; every method returns a term's index."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._known: dict[Term, int] = {}

    def literal(self, value: Number, kind: str = "float") -> int:
        """A constant."""
        cast = {"float": float, "int": int, "bool": bool}[kind](value)
        return self._intern(Term("literal", (), frozenset(), kind, (("value", cast),)))

    def leaf(self, op: str, kind: str, axes: Iterable[Axis], **attrs: Any) -> int:
        """An input, an iota or a constant array."""
        return self._intern(Term(op, (), frozenset(axes), kind, tuple(attrs.items())))

    def raw(self, op: str, args: tuple[int, ...], kind: str = "", **attrs: Any) -> int:
        """A term as it stands, without identities."""
        if op in _COMMUTES:
            args = tuple(sorted(args, key=lambda a: (self.program[a].op == "literal", a)))
        axes = frozenset[Axis]().union(*(self.program[a].axes for a in args))
        fixed = "bool" if op in COMPARISONS else "float" if op == "to_float" else ""
        kind = kind or fixed or self.kind_of(args)
        return self._intern(Term(op, args, axes, kind, tuple(attrs.items())))

    def apply(self, op: str, args: tuple[int, ...], **attrs: Any) -> int:
        """An elementwise operation, simplified."""
        folded = self._fold(op, args)
        if folded is not None:
            return folded
        found = idioms.simplify(self, op, args, attrs)
        return self.raw(op, args, **attrs) if found is None else found

    def _fold(self, op: str, args: tuple[int, ...]) -> int | None:
        values = [self.program.literal(a) for a in args]
        if any(v is None for v in values):
            return None
        try:
            if op in _FOLD:
                value = _FOLD[op](*values)
            elif op in _FOLD_ONE:
                value = _FOLD_ONE[op](*values)
            else:
                return None
        except (ValueError, OverflowError):
            return None
        return self.literal(value, "bool" if op in COMPARISONS else self.kind_of(args))

    def reduce(self, op: str, arg: int, over: tuple[Axis, ...]) -> int:
        """A reduction over axes; those that the argument does not depend on are cheap."""
        assert op in REDUCTIONS
        inside = tuple(a for a in over if a in self.program[arg].axes)
        outside = tuple(a for a in over if a not in inside)
        if inside and op == "sum":
            picked = self._pick(arg, inside)
            if picked is not None:
                return picked
        if inside:
            arg = self._intern(
                Term(
                    op,
                    (arg,),
                    self.program[arg].axes - set(inside),
                    self.program[arg].kind,
                    (("over", inside),),
                )
            )
        if op == "sum" and outside:
            size = self.leaf("size", self.program[arg].kind, (), over=outside)
            return self.apply("mul", (arg, size))
        return arg

    def running(self, op: str, arg: int, over: tuple[Axis, ...], reverse: bool) -> int:
        """A running reduction: along `over`, from its start or (`reverse`) from its end."""
        t = self.program[arg]
        attrs = (("over", over), ("reverse", reverse))
        return self._intern(Term(op, (arg,), t.axes | set(over), t.kind, attrs))

    def _pick(self, arg: int, over: tuple[Axis, ...]) -> int | None:
        """sum(where(column == index, f(x), 0)) is f(x[index]): only x itself is picked.

        An index outside of the row picks 0, as the sum does.
        """
        found = idioms.one_hot(self, arg, over)
        if found is None:
            return None
        hit, index, value = found
        inside = frozenset(over)
        if self.program[value].op in ("input", "dot"):
            return None
        roots = self.program.reach([value], stop=lambda t: not self._opens(t, inside))
        bases = {t for t in roots if not self._opens(t, inside) and self.program[t].axes & inside}
        if len(bases) != 1 or bases == {value}:
            return None
        zero = self.literal(0, self.program[value].kind)
        moved: dict[int, int] = {}
        for t in roots:
            if t in bases:
                chosen = self.raw("where", (hit, t, zero), kind=self.program[t].kind)
                moved[t] = self.reduce("sum", chosen, over)
            elif not self._opens(t, inside):
                moved[t] = t
            else:
                args = tuple(moved[a] for a in self.program[t].args)
                moved[t] = self.apply(self.program[t].op, args, **dict(self.program[t].attrs))
        size = self.leaf("size", "int", (), over=over)
        least, most = (
            self.apply("ge", (index, self.literal(0, "int"))),
            self.apply("lt", (index, size)),
        )
        return self.apply("where", (self.apply("and", (least, most)), moved[value], zero))

    def _opens(self, term: int, inside: frozenset[Axis]) -> bool:
        """Whether a term is elementwise in the columns, so that a pick may look below it."""
        t = self.program[term]
        return bool(t.args) and bool(t.axes & inside) and t.op not in (*REDUCTIONS, "dot")

    def term(self, term: Term) -> int:
        """A term that its caller made."""
        return self._intern(term)

    def kind_of(self, args: tuple[int, ...]) -> str:
        """Kind of an arithmetic operation's result: a float where one operand is."""
        kinds = [self.program[a].kind for a in args]
        return "float" if "float" in kinds else kinds[-1]

    def _intern(self, term: Term) -> int:
        index = self._known.get(term)
        if index is None:
            index = self._known[term] = len(self.program.terms)
            self.program.terms.append(term)
        return index
