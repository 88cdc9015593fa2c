"""Identities and idioms: what several primitives together mean, and the cheaper way to say it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from maxkernel.engineers.builtin.terms import Term

if TYPE_CHECKING:
    from maxkernel.engineers.builtin.build import Builder

Args = tuple[int, ...]
Rule = Callable[["Builder", Args, dict[str, Any]], "int | None"]

_POSITIVE = frozenset({"exp", "exp2", "logistic", "softplus", "square", "abs", "sqrt", "rsqrt"})


def simplify(b: Builder, op: str, args: Args, attrs: dict[str, Any]) -> int | None:
    """A term equal to `op(*args)` but simpler, or None."""
    for rule in _RULES.get(op, ()):
        found = rule(b, args, attrs)
        if found is not None:
            return found
    return None


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
    return _softplus(b, args) or _literal_chain(b, "add", split)


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


def _softplus(b: Builder, args: Args) -> int | None:
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


def _sub(b: Builder, args: Args, attrs: dict[str, Any]) -> int | None:
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
    return _activation(b, args)


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


def _activation(b: Builder, args: Args) -> int | None:
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


def _log1p(b: Builder, args: Args, attrs: dict[str, Any]) -> int | None:
    power = match(b, args[0], "exp")
    return b.raw("softplus", power) if power and not match(b, power[0], "neg") else None


def _log(b: Builder, args: Args, attrs: dict[str, Any]) -> int | None:
    inner = one_plus(b, args[0])
    return _log1p(b, (inner,), attrs) if inner is not None else None


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
    "log1p": (_log1p,),
    "log": (_log,),
}
