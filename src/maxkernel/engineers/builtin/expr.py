"""Writes terms as jnp statements over two-dimensional blocks.

Every value of a block is (rows, columns), (rows, 1), (1, columns) or a scalar, so broadcasting
needs no code. Floats are float32; narrow integers are int32.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from maxkernel.engineers.builtin import helpers
from maxkernel.engineers.builtin.axes import Axis, Unsupported
from maxkernel.engineers.builtin.hints import hint
from maxkernel.engineers.builtin.terms import REDUCTIONS, Program, Term
from maxkernel.engineers.builtin.text import Names, number

_INLINE = 60
"""Longest expression that is written inside another one."""
_ATOM, _UNARY, _PRODUCT, _SUM, _COMPARE = 100, 30, 20, 10, 5
BINARY = {
    "add": ("+", _SUM),
    "sub": ("-", _SUM),
    "mul": ("*", _PRODUCT),
    "div": ("/", _PRODUCT),
    "and": ("&", 8),
    "xor": ("^", 7),
    "or": ("|", 6),
    "shl": ("<<", 9),
    "shr": (">>", 9),
    "eq": ("==", _COMPARE),
    "ne": ("!=", _COMPARE),
    "lt": ("<", _COMPARE),
    "le": ("<=", _COMPARE),
    "gt": (">", _COMPARE),
    "ge": (">=", _COMPARE),
}
CALLS = {
    "max": "jnp.maximum",
    "min": "jnp.minimum",
    "where": "jnp.where",
    "exp": "jnp.exp",
    "exp2": "jnp.exp2",
    "log": "jnp.log",
    "log1p": "jnp.log1p",
    "tanh": "jnp.tanh",
    "rsqrt": "jax.lax.rsqrt",
    "sqrt": "jnp.sqrt",
    "sin": "jnp.sin",
    "cos": "jnp.cos",
    "tan": "jnp.tan",
    "erf": "jax.lax.erf",
    "abs": "jnp.abs",
    "sign": "jnp.sign",
    "floor": "jnp.floor",
    "round": "jnp.round",
    "ceil": "jnp.ceil",
    "rem": "jax.lax.rem",
    "pow": "jnp.power",
    "is_finite": "jnp.isfinite",
    "square": "jnp.square",
}
REDUCE = {"sum": "jnp.sum", "mean": "jnp.mean", "amax": "jnp.max", "amin": "jnp.min"}


@dataclass(frozen=True)
class Code:
    """An expression and how tightly its outermost operator binds."""

    text: str
    binds: int = _ATOM

    def at(self, level: int) -> str:
        """The text, in parentheses where an operator of this level would tear it apart."""
        return self.text if self.binds >= level else f"({self.text})"


@dataclass
class Scope:
    """Statements of one block of code, and what each name stands for.

    `load` writes an input's block; `iota` and `size` the family's index and extent expressions.
    """

    program: Program
    rows: frozenset[Axis]
    cols: tuple[Axis, ...]
    load: Callable[[int], Code]
    iota: Callable[[tuple[Axis, ...]], Code]
    size: Callable[[tuple[Axis, ...]], Code]
    names: Names
    known: dict[int, Code] = field(default_factory=dict[int, Code])
    lines: list[str] = field(default_factory=list[str])
    helpers: set[str] = field(default_factory=set[str])
    constants: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    uses: Counter[int] = field(default_factory=Counter[int])
    axis: int = 1
    """Of a block, along which `cols` lie."""
    narrow: bool = False
    """Values come from 16-bit floats or less: the matrix unit's bfloat16 is fine for statistics."""

    def write(self, roots: Iterable[int]) -> list[Code]:
        """Statements for everything that `roots` need, and the expressions for the roots."""
        roots = list(roots)
        region = self.program.reach(roots, stop=self.known.__contains__)
        self.uses = Counter(a for t in region if t not in self.known for a in self.program[t].args)
        return [self._value(root) for root in roots]

    def assign(self, term: int, code: Code) -> Code:
        """Give a term a name of its own."""
        name = self.names.new(hint(self.program, term))
        self.lines.append(f"{name} = {code.text}")
        self.known[term] = Code(name)
        return self.known[term]

    def _value(self, term: int) -> Code:
        if term in self.known:
            return self.known[term]
        t = self.program[term]
        if t.op == "literal":
            return _literal(t)
        if t.op == "size":
            return self.size(t.attr("over"))
        if t.op == "iota":
            return self.assign(term, self.iota(t.attr("over")))
        if t.op == "input":
            return self.assign(term, self.load(term))
        args = [self._value(a) for a in t.args]
        code = self._apply(t, args)
        while len(code.text) > _INLINE and self._name_longest(t, args):
            code = self._apply(t, args)
        named = t.op in REDUCTIONS or self.uses[term] > 1
        return self.assign(term, code) if named or len(code.text) > _INLINE else code

    def _name_longest(self, t: Term, args: list[Code]) -> bool:
        """Give the longest operand a name; False when all are names already."""
        position = max(range(len(args)), key=lambda i: len(args[i].text))
        if args[position].text.isidentifier() or self.program[t.args[position]].op == "literal":
            return False
        args[position] = self.assign(t.args[position], args[position])
        return True

    def _apply(self, t: Term, args: list[Code]) -> Code:
        if t.op in BINARY:
            return self._binary(t, args)
        texts = [a.text for a in args]
        if t.op in REDUCTIONS:
            return self._reduce(t, args[0])
        if t.op == "square" and args[0].text.isidentifier():
            return Code(f"{texts[0]} * {texts[0]}", _PRODUCT)
        if t.op == "neg":
            return Code(f"-{args[0].at(_UNARY + 1)}", _UNARY)
        if t.op == "not":
            return Code(f"~{args[0].at(_UNARY + 1)}", _UNARY)
        if t.op in ("to_float", "convert"):
            return self._convert(t, args[0])
        if t.op in CALLS:
            return Code(f"{CALLS[t.op]}({', '.join(texts)})")
        helper = helpers.use(t, texts)
        if helper is None:
            raise Unsupported(f"kernels have no `{t.op}`")
        self.helpers.add(helper[0])
        return Code(helper[1])

    def _binary(self, t: Term, args: list[Code]) -> Code:
        sign, level = BINARY[t.op]
        if t.op == "div" and t.kind == "int":
            raise Unsupported("whole-number division")
        left, right = args
        value = self.program.literal(t.args[1])
        if t.op == "add" and isinstance(value, (int, float)) and value < 0:
            sign, right = "-", Code(number(-value))
        elif t.op == "add" and isinstance(value, float) and 0 < value < 0.01:
            right = self._epsilon(value)
        tight = level + 1 if level == _COMPARE else level
        if t.op in ("shl", "shr"):
            return Code(f"{left.at(_SUM + 1)} {sign} {right.at(_SUM + 1)}", level)
        return Code(f"{left.at(tight)} {sign} {right.at(level + 1)}", level)

    def _epsilon(self, value: float) -> Code:
        for name in ("EPS", "EPS_2", "EPS_3"):
            text = number(value)
            if self.constants.setdefault(name, (text, ""))[0] == text:
                return Code(name)
        return Code(number(value))

    def _reduce(self, t: Term, arg: Code) -> Code:
        """A reduction over whole rows, over runs of columns, or over rows.

        A value per run of columns is held in every column of its run, so a reduction over runs is
        one over columns.
        """
        over: tuple[Axis, ...] = t.attr("over")
        present = tuple(a for a in self.cols if a in self.program[t.args[0]].axes)
        if over and over == present:
            text = f"{REDUCE[t.op]}({arg.text}, axis={self.axis}, keepdims=True)"
            repeats = self.program.extent(a for a in self.cols if a not in present)
            if t.op == "sum" and repeats > 1:
                return Code(f"{text} * {number(1.0 / repeats)}", _PRODUCT)
            return Code(text)
        if over and over == self.cols[len(self.cols) - len(over) :] and present == self.cols:
            return self._run_reduce(t, arg, self.program.extent(over))
        if frozenset(over) == self.rows:
            return Code(f"{REDUCE[t.op]}({arg.text}, axis=0, keepdims=True)")
        raise Unsupported("a reduction over dimensions that do not lie together")

    def _run_reduce(self, t: Term, arg: Code, size: int) -> Code:
        if t.op not in ("mean", "sum"):
            raise Unsupported(f"`{t.op}` over runs of columns")
        self.helpers.add(helpers.run_mean(exact=not self.narrow))
        text = f"run_mean({arg.text}, {size})"
        return Code(text) if t.op == "mean" else Code(f"{text} * {number(float(size))}", _PRODUCT)

    def _convert(self, t: Term, arg: Code) -> Code:
        if t.op == "to_float":
            return Code(f"{arg.at(_ATOM)}.astype(jnp.float32)")
        dtype = t.attr("dtype")
        if dtype.startswith("float8"):
            return Code(f"{arg.at(_ATOM)}.astype(jnp.{dtype}).astype(jnp.float32)")
        return Code(f"{arg.at(_ATOM)}.astype(jnp.{dtype}).astype(jnp.int32)")


def _literal(t: Term) -> Code:
    value = t.attr("value")
    text = number(value)
    return Code(text, _UNARY if text.startswith("-") else _ATOM)
