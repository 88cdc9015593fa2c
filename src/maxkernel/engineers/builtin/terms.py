"""The built-in engineer's own form of a program: expressions over named axes.

A term has no layout: transposes, reshapes, broadcasts and conversions between float formats are
gone, and equal sub-expressions are one term. Only inputs and outputs remember how they lie in
memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from maxkernel.engineers.builtin.axes import Axis, Dim, Dims

REDUCTIONS = frozenset({"sum", "mean", "amax", "amin"})
COMPARISONS = frozenset(
    {"eq", "ne", "lt", "le", "gt", "ge", "is_finite", "and", "or", "not", "xor"}
)


@dataclass(frozen=True)
class Term:
    """One expression. `kind` is `float`, `int` or `bool`; `axes` what its value depends on.

    `attrs` by `op`: `input` index, dims; `literal` value; `iota`, `size` and reductions
    over (axes, outermost first), running reductions reverse as well; `dot` see `Dot`; `convert`
    dtype; `join` over (the axes along which its arguments follow one another) and parts (theirs). A
    `size` is the number of elements along axes: a number of the program that follows the
    inputs' shapes.
    """

    op: str
    args: tuple[int, ...]
    axes: frozenset[Axis]
    kind: str
    attrs: tuple[tuple[str, Any], ...] = ()

    def attr(self, name: str) -> Any:
        """One attribute by name; KeyError when the term has none of that name."""
        return dict(self.attrs)[name]


@dataclass(frozen=True)
class Dot:
    """How a product's operands lie: per dimension, (axes of the result, axes of the operand).

    Contracted dimensions are pairs (axes of the left, axes of the right operand).
    """

    lhs_batch: tuple[tuple[Dim, Dim], ...]
    rhs_batch: tuple[tuple[Dim, Dim], ...]
    lhs_free: tuple[tuple[Dim, Dim], ...]
    rhs_free: tuple[tuple[Dim, Dim], ...]
    contract: tuple[tuple[Dim, Dim], ...]
    lhs_dtype: str
    rhs_dtype: str
    dtype: str
    precision: str = "default"


@dataclass(frozen=True)
class Output:
    """One result: a term and how it lies in memory."""

    term: int
    dims: Dims
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class InputUse:
    """An input as the program reads it."""

    index: int
    name: str
    shape: tuple[int, ...]
    dtype: str
    dims: Dims


@dataclass
class Program:
    """Terms in topological order; built once by `canon`, read-only afterwards."""

    sizes: dict[Axis, int] = field(default_factory=dict[Axis, int])
    terms: list[Term] = field(default_factory=list[Term])
    outputs: tuple[Output, ...] = ()
    names: tuple[str, ...] = ()
    shapes: tuple[tuple[int, ...], ...] = ()
    dtypes: tuple[str, ...] = ()

    def __getitem__(self, term: int) -> Term:
        return self.terms[term]

    def extent(self, axes: Iterable[Axis]) -> int:
        """Number of elements along several axes together."""
        return math.prod(self.sizes[a] for a in axes)

    def input(self, term: int) -> InputUse:
        """The input that a term of op `input` reads."""
        index: int = self[term].attr("index")
        return InputUse(
            index,
            self.names[index],
            self.shapes[index],
            self.dtypes[index],
            self[term].attr("dims"),
        )

    def literal(self, term: int) -> float | int | bool | None:
        """The value of a literal, None for other terms."""
        return self[term].attr("value") if self[term].op == "literal" else None

    def reach(
        self, roots: Iterable[int], stop: Callable[[int], bool] = lambda _: False
    ) -> list[int]:
        """Terms that `roots` need, themselves included, in order; does not look below `stop`."""
        seen: set[int] = set()
        stack = list(roots)
        while stack:
            term = stack.pop()
            if term in seen:
                continue
            seen.add(term)
            if not stop(term):
                stack.extend(self[term].args)
        return sorted(seen)

    def live(self) -> list[int]:
        """Every term that some output needs."""
        return self.reach(output.term for output in self.outputs)
