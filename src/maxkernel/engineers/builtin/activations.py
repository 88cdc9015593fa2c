"""Activations, recognised from the primitives they are written in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from maxkernel.engineers.builtin.matching import Args, factors, match, one_plus, split_literal

if TYPE_CHECKING:
    from maxkernel.engineers.builtin.build import Builder


def softplus(b: Builder, args: Args) -> int | None:
    """max(x, 0) + log1p(exp(-|x|))."""
    for left, right in (args, args[::-1]):
        relu, log = match(b, left, "max"), match(b, right, "log1p")
        split = split_literal(b, relu) if relu else None
        if not (log and split and split[1] == 0):
            continue
        power = match(b, log[0], "exp")
        minus = match(b, power[0], "neg") if power else None
        size = match(b, minus[0], "abs") if minus else None
        if size and size[0] == split[0]:
            return b.raw("softplus", (split[0],))
    return None


def activation(b: Builder, args: Args) -> int | None:
    """silu, mish and tanh-GELU, whose other factor is the activation's own argument."""
    for x, gate in (args, args[::-1]):
        logistic, tanh = match(b, gate, "logistic"), match(b, gate, "tanh")
        if logistic and logistic[0] == x:
            return b.raw("silu", (x,))
        plus = match(b, tanh[0], "softplus") if tanh else None
        if plus and plus[0] == x:
            return b.raw("mish", (x,))
    return _gelu(b, args)


def _gelu(b: Builder, args: Args) -> int | None:
    """0.5 x (1 + tanh(scale (x + cubic x^3))), multiplied in any order."""
    (c0, f0), (c1, f1) = factors(b, args[0]), factors(b, args[1])
    rest = f0 + f1
    if len(rest) != 2 or c0 * c1 != 0.5:
        return None
    for x, bracket in (tuple(rest), tuple(rest[::-1])):
        inner = one_plus(b, bracket)
        tanh = match(b, inner, "tanh") if inner is not None else None
        constants = _gelu_argument(b, tanh[0], x) if tanh else None
        if constants:
            return b.raw("gelu", (x,), scale=constants[0], cubic=constants[1])
    return None


def _gelu_argument(b: Builder, term: int, x: int) -> tuple[float, float] | None:
    """(scale, cubic) when the term is scale (x + cubic x^3) or scale x (1 + cubic x^2)."""
    scale, rest = factors(b, term)
    if len(rest) == 2 and x in rest:
        other = rest[1] if rest[0] == x else rest[0]
        inner = one_plus(b, other)
        if inner is None:
            return None
        cubic, below = factors(b, inner)
        return (scale, cubic) if below in ([b.raw("square", (x,))], [x, x]) else None
    args = match(b, rest[0], "add") if len(rest) == 1 else None
    if not args or x not in args:
        return None
    cubic, below = factors(b, args[1] if args[0] == x else args[0])
    cube, square = b.raw("integer_pow", (x,), y=3), b.raw("square", (x,))
    if below == [cube] or sorted(below) in ([x, x, x], sorted([x, square])):
        return scale, cubic
    return None


def log1p(b: Builder, args: Args, attrs: dict[str, Any]) -> int | None:
    power = match(b, args[0], "exp")
    return b.raw("softplus", power) if power and not match(b, power[0], "neg") else None


def log(b: Builder, args: Args, attrs: dict[str, Any]) -> int | None:
    inner = one_plus(b, args[0])
    return log1p(b, (inner,), attrs) if inner is not None else None
