"""Identities: simpler terms for what several primitives together mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from maxkernel.engineers.builtin.activations import activation, log, log1p, softplus
from maxkernel.engineers.builtin.matching import (
    Args,
    match,
    never_negative,
    one_plus,
    split_literal,
)
from maxkernel.engineers.builtin.terms import Term

if TYPE_CHECKING:
    from maxkernel.engineers.builtin.build import Builder

Rule = Callable[["Builder", Args, dict[str, Any]], "int | None"]


def simplify(b: Builder, op: str, args: Args, attrs: dict[str, Any]) -> int | None:
    """A term equal to `op(*args)` but simpler, or None."""
    for rule in _RULES.get(op, ()):
        found = rule(b, args, attrs)
        if found is not None:
            return found
    return None


def _add(b: Builder, args: Args, attrs: dict[str, Any]) -> int | None:
    split = split_literal(b, args)
    if split and split[1] == 0:
        return split[0]
    if args[0] == args[1]:
        return b.apply("mul", (args[0], b.literal(2, b.kind_of(args))))
    for left, right in (args, args[::-1]):
        negated = match(b, right, "neg")
        if negated:
            return b.apply("sub", (left, negated[0]))
    return softplus(b, args) or _literal_chain(b, "add", split)


def _literal_chain(b: Builder, op: str, split: tuple[int, float] | None) -> int | None:
    """(x op c1) op c2 = x op (c1 op c2)."""
    if split is None or b.program[split[0]].kind != "float":
        return None
    inner = match(b, split[0], op)
    below = split_literal(b, inner) if inner else None
    if below is None:
        return None
    value = below[1] + split[1] if op == "add" else below[1] * split[1]
    return b.apply(op, (below[0], b.literal(value)))


def _sub(b: Builder, args: Args, attrs: dict[str, Any]) -> int | None:
    if args[0] == args[1]:
        return b.literal(0, b.kind_of(args))
    value = b.program.literal(args[1])
    if value is not None:
        if b.program[args[0]].kind == "bool":
            return None
        return b.apply("add", (args[0], b.literal(-value, b.kind_of(args))))
    if b.program.literal(args[0]) == 0:
        return b.apply("neg", (args[1],))
    return None


def _mul(b: Builder, args: Args, attrs: dict[str, Any]) -> int | None:
    split = split_literal(b, args)
    if split:
        if split[1] == 1:
            return split[0]
        if split[1] == 0:
            return b.literal(0, b.kind_of(args))
        if split[1] == -1:
            return b.apply("neg", (split[0],))
        return _mean(b, split) or _literal_chain(b, "mul", split)
    if args[0] == args[1]:
        return b.apply("square", (args[0],))
    for left, right in (args, args[::-1]):
        cast = match(b, right, "to_float")
        if cast and b.program[cast[0]].kind == "bool":
            return b.raw("where", (cast[0], left, b.literal(0.0)), kind="float")
        inverse = match(b, right, "div")
        if inverse and b.program.literal(inverse[0]) == 1.0:
            return b.apply("div", (left, inverse[1]))
    return activation(b, args)


def _mean(b: Builder, split: tuple[int, float]) -> int | None:
    """sum(x) / n: a mean, whatever n is at another size; also behind one more constant factor."""
    term, value = split
    t = b.program[term]
    if t.op == "sum" and t.kind == "float":
        over = t.attr("over")
        if abs(value * b.program.extent(over) - 1.0) < 1e-6:
            return b.term(Term("mean", t.args, t.axes, t.kind, t.attrs))
        return None
    below = split_literal(b, t.args) if t.op == "mul" else None
    mean = _mean(b, (below[0], value)) if below else None
    return b.apply("mul", (mean, b.literal(below[1]))) if mean is not None and below else None


def _div(b: Builder, args: Args, attrs: dict[str, Any]) -> int | None:
    top, bottom = args
    if b.program[top].kind != "float":
        return None
    value = b.program.literal(bottom)
    if value:
        return b.apply("mul", (top, b.literal(1.0 / float(value))))
    root = match(b, bottom, "sqrt")
    if root:
        return b.apply("mul", (top, b.apply("rsqrt", root)))
    one = b.program.literal(top) == 1.0
    inner = one_plus(b, bottom) if one else None
    power = match(b, inner, "exp") if inner is not None else None
    if power:
        return b.apply("logistic", (b.apply("neg", power),))
    if not one and b.program[bottom].axes < b.program[top].axes:
        return b.raw("mul", (top, b.raw("div", (b.literal(1.0), bottom))))
    silu_gate = one_plus(b, bottom)
    power = match(b, silu_gate, "exp") if silu_gate is not None else None
    if power:
        return b.apply("mul", (top, b.apply("logistic", (b.apply("neg", power),))))
    return None


def _neg(b: Builder, args: Args, attrs: dict[str, Any]) -> int | None:
    inner = match(b, args[0], "neg")
    if inner:
        return inner[0]
    difference = match(b, args[0], "sub")
    return b.apply("sub", difference[::-1]) if difference else None


def _max(b: Builder, args: Args, attrs: dict[str, Any]) -> int | None:
    split = split_literal(b, args)
    if args[0] == args[1] or (split and split[1] == float("-inf")):
        return split[0] if split else args[0]
    return None


def _min(b: Builder, args: Args, attrs: dict[str, Any]) -> int | None:
    split = split_literal(b, args)
    if args[0] == args[1] or (split and split[1] == float("inf")):
        return split[0] if split else args[0]
    return None


def _where(b: Builder, args: Args, attrs: dict[str, Any]) -> int | None:
    value = b.program.literal(args[0])
    if value is not None:
        return args[1] if value else args[2]
    finite = match(b, args[0], "is_finite")
    if finite == args[1:2] and match(b, args[1], "amax") and b.program.literal(args[2]) == 0:
        return args[1]  # an infinite maximum has no finite result either way
    return args[1] if args[1] == args[2] else None


def one_hot(b: Builder, term: int, over: tuple[int, ...]) -> tuple[int, int, int] | None:
    """(hit, index, value) when the term is `value where column == index, else 0`."""
    args = match(b, term, "where")
    if not args or b.program.literal(args[2]) != 0:
        return None
    sides = match(b, args[0], "eq")
    for column, index in (sides, sides[::-1]) if sides else ():
        t = b.program[column]
        if t.op == "iota" and t.attr("over") == over and not b.program[index].axes & set(over):
            return args[0], index, args[1]
    return None


def wrapped_index(b: Builder, term: int, extent: int) -> int | None:
    """i when the term is `i + extent if i < 0 else i`, as indexing writes it."""
    args = match(b, term, "where")
    if not args:
        return None
    below, shifted = match(b, args[0], "lt"), match(b, args[1], "add")
    split = split_literal(b, shifted) if shifted else None
    if below and split == (args[2], extent) and below[0] == args[2]:
        return args[2] if b.program.literal(below[1]) == 0 else None
    return None


def _ne(b: Builder, args: Args, attrs: dict[str, Any]) -> int | None:
    """x != x asks for NaN; what follows would be NaN either way."""
    return b.literal(False, "bool") if args[0] == args[1] else None


def _abs(b: Builder, args: Args, attrs: dict[str, Any]) -> int | None:
    return args[0] if never_negative(b, args[0]) else None


def _power(b: Builder, args: Args, attrs: dict[str, Any]) -> int | None:
    y = attrs.get("y", b.program.literal(args[-1]))
    if y == 2:
        return b.apply("square", args[:1])
    if y == 1:
        return args[0]
    if y == 0.5:
        return b.apply("sqrt", args[:1])
    if y == -0.5:
        return b.apply("rsqrt", args[:1])
    if y == -1:
        return b.apply("div", (b.literal(1.0), args[0]))
    if len(args) == 2 and y is not None and float(y).is_integer() and abs(y) <= 8:
        return b.raw("integer_pow", args[:1], y=int(y))
    return None


_RULES: dict[str, tuple[Rule, ...]] = {
    "add": (_add,),
    "sub": (_sub,),
    "mul": (_mul,),
    "div": (_div,),
    "neg": (_neg,),
    "max": (_max,),
    "min": (_min,),
    "where": (_where,),
    "ne": (_ne,),
    "abs": (_abs,),
    "pow": (_power,),
    "integer_pow": (_power,),
    "log1p": (log1p,),
    "log": (log,),
}
