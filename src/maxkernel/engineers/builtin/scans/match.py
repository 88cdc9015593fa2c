"""Recognises linear attention: causal scores from one product, times decays, times values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from maxkernel.engineers.builtin.attention.masks import read_mask
from maxkernel.engineers.builtin.attention.match import Pair, read_products, two_products
from maxkernel.engineers.builtin.attention.sides import Side
from maxkernel.engineers.builtin.axes import Axis, Dim, Unsupported
from maxkernel.engineers.builtin.build import Builder
from maxkernel.engineers.builtin.scans.factors import (
    Exponent,
    Product,
    read_exponent,
    read_product,
    step_of,
)
from maxkernel.engineers.builtin.terms import Output, Program

Norm = Literal["none", "signed", "absolute"]
"""How rows of scores are added up for what they are divided by."""


@dataclass(frozen=True)
class Scan:
    """out = gain (scores / norm) values; scores = scale (q k^T) exp(f(row) - f(column)), causal.

    `step` is a term, the log-decay of each position: its running sum is f; None without decays.
    `norm_term` is what rows are divided by, a function of `sum_term`, the sum of a row of scores
    (`signed`) or of their sizes (`absolute`).
    """

    program: Program
    pair: Pair
    step: int | None
    norm: Norm
    norm_term: int | None
    sum_term: int | None
    scale: float
    """Of the scores."""
    gain: float
    """Of the result."""
    output: Output

    @property
    def sides(self) -> tuple[Side, Side, Side]:
        """Queries, keys and values."""
        return self.pair.q, self.pair.k, self.pair.v

    @property
    def row(self) -> Axis:
        """The axis of positions."""
        return self.pair.rows[0]

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """(heads, positions, width of a key, width of a value) at full size."""
        extent, pair = self.program.extent, self.pair
        return (
            extent(pair.heads),
            extent(pair.rows),
            extent(pair.q.cols),
            extent(pair.v.cols),
        )

    @property
    def step_heads(self) -> Dim:
        """The axes of the heads that the log-decays depend on."""
        axes = frozenset[Axis]() if self.step is None else self.program[self.step].axes
        return tuple(a for a in self.pair.heads if a in axes)


def match(program: Program) -> Scan:
    """The program as linear attention; raises Unsupported with the reason."""
    first, second, weights, values = two_products(program)
    output = program.outputs[0]
    outer = read_product(program, output.term)
    if outer.factors != (second,) or outer.seen:
        raise Unsupported("something follows the second product")
    inner = read_product(program, weights)
    if inner.factors.count(first) != 1:
        raise Unsupported("scores are no product of queries and keys")
    pair = read_products(program, first, second, weights, values, _over(program, second, weights))
    if len(pair.rows) != 1 or len(pair.cols) != 1 or pair.result[1] == ():
        raise Unsupported("positions are more than one dimension")
    if pair.k.parts:
        raise Unsupported("keys that are joined of several arrays")
    if any(side.share != "outer" or _shared(program, side, pair) for side in (pair.q, pair.k)):
        raise Unsupported("heads share queries or keys")
    if _shared(program, pair.v, pair):
        raise Unsupported("heads share values")
    if program.extent(pair.rows) != program.extent(pair.cols):
        raise Unsupported("queries and keys are not at the same positions")
    changed = [s for s in (pair.q, pair.k, pair.v) if program[s.term].op != "input"]
    if changed and len({s.use.index for s in (pair.q, pair.k, pair.v)}) < 3:
        raise Unsupported("one array is used in two ways, changed in one of them")
    step = _step(program, inner, first, pair)
    norm, norm_term, sum_term = _norm(program, inner, outer, pair)
    scale = inner.scale * pair.scale
    return Scan(program, pair, step, norm, norm_term, sum_term, scale, outer.scale, output)


def _over(program: Program, second: int, weights: int) -> Dim:
    """The keys: what the second product runs over."""
    dot = program[second].attr("dot")
    mine = 0 if program[second].args[0] == weights else 1
    return tuple(axis for pair in dot.contract for axis in pair[mine])


def _shared(program: Program, side: Side, pair: Pair) -> bool:
    return program.extent(side.heads) != program.extent(pair.heads)


def _step(program: Program, inner: Product, first: int, pair: Pair) -> int | None:
    """The log-decay per position; the scores must be causal."""
    (row,), (col,) = pair.rows, pair.cols
    exponents: list[Exponent] = []
    for factor in inner.factors:
        if factor == first:
            continue
        exponent = read_exponent(program, factor)
        if exponent is None:
            raise Unsupported(f"scores are multiplied by `{program[factor].op}`")
        exponents.append(exponent)
    seen = [*inner.seen, *(c for e in exponents for c in e.seen)]
    build, total = Builder(program), None
    conditions = [c if yes else build.raw("not", (c,)) for c, yes in seen]
    mask = read_mask(program, conditions, pair.rows, pair.cols)
    if not mask.causal or mask.window is not None or mask.rest:
        raise Unsupported("scores have another mask than a causal one")
    for exponent in exponents:
        step = step_of(program, exponent, row, col)
        total = step if total is None else build.apply("add", (total, step))
    if total is not None and not program[total].axes <= {row, *pair.heads}:
        raise Unsupported("a decay depends on more than heads and positions")
    return total


def _norm(
    program: Program, inner: Product, outer: Product, pair: Pair
) -> tuple[Norm, int | None, int | None]:
    """(kind, what rows are divided by, the sum of scores that it depends on)."""
    divisors = [*inner.divisors, *outer.divisors]
    if not divisors:
        return "none", None, None
    if len(divisors) > 1:
        raise Unsupported("rows are divided more than once")
    scores = Product(inner.scale, inner.factors, (), inner.seen).without_divisors()
    norm = divisors[0]
    region = program.reach([norm], stop=lambda t: program[t].op == "sum")
    sums = [t for t in region if program[t].op == "sum"]
    if len(sums) != 1 or any(program[t].op == "input" for t in region):
        raise Unsupported("rows are divided by something other than a sum of scores")
    (inside,) = program[sums[0]].args
    norm_kind: Norm = "signed"
    if program[inside].op == "abs":
        (inside,), norm_kind = program[inside].args, "absolute"
    if program[sums[0]].attr("over") != pair.cols:
        raise Unsupported("rows are divided by a sum that does not run over the keys")
    if read_product(program, inside).without_divisors() != scores:
        raise Unsupported("rows are divided by a sum of something other than their scores")
    if read_product(program, inside).divisors:
        raise Unsupported("rows are divided by a sum of something other than their scores")
    return norm_kind, norm, sums[0]
