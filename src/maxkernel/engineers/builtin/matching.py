"""Small questions about terms that the rules of identities and idioms share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from maxkernel.engineers.builtin.build import Builder

Args = tuple[int, ...]

_POSITIVE = frozenset({"exp", "exp2", "logistic", "softplus", "square", "abs", "sqrt", "rsqrt"})


def never_negative(b: Builder, term: int) -> bool:
    """Whether a term's value is known to be at least zero."""
    t = b.program[term]
    if t.op == "literal":
        return t.attr("value") >= 0
    if t.op in _POSITIVE:
        return True
    if t.op in ("sum", "mean", "amax", "amin", "max", "min", "add", "mul", "div"):
        return all(never_negative(b, a) for a in t.args)
    return False


def match(b: Builder, term: int, op: str) -> Args | None:
    """The arguments of a term if it is an `op`."""
    t = b.program[term]
    return t.args if t.op == op else None


def split_literal(b: Builder, args: Args) -> tuple[int, float] | None:
    """(other, value) when one of two arguments is a literal."""
    for mine, other in (args, args[::-1]):
        value = b.program.literal(mine)
        if value is not None:
            return other, float(value)
    return None


def factors(b: Builder, term: int) -> tuple[float, list[int]]:
    """A product as a constant and its other factors."""
    args = match(b, term, "mul")
    if args is None:
        value = b.program.literal(term)
        return (1.0, [term]) if value is None else (float(value), [])
    (c0, f0), (c1, f1) = factors(b, args[0]), factors(b, args[1])
    return c0 * c1, f0 + f1


def one_plus(b: Builder, term: int) -> int | None:
    """x when the term is 1 + x."""
    args = match(b, term, "add")
    split = split_literal(b, args) if args else None
    return split[0] if split and split[1] == 1.0 else None
