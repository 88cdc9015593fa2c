"""Recognises attention: softmax(modified(q k^T)) v over flattened heads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from maxkernel.engineers.builtin.attention.masks import Mask, read_mask
from maxkernel.engineers.builtin.attention.sides import (
    Side,
    joined_side,
    pair_up,
    present,
    share,
    side,
)
from maxkernel.engineers.builtin.attention.softmax import divided, read_softmax, unmask
from maxkernel.engineers.builtin.axes import Axis, Dim, Unsupported
from maxkernel.engineers.builtin.operands import flat
from maxkernel.engineers.builtin.terms import REDUCTIONS, Dot, Output, Program

Pairs = tuple[tuple[Dim, Dim], ...]


@dataclass(frozen=True)
class Attention:
    """One attention. The scores have axes `heads`, `rows` (queries) and `cols` (keys).

    `score` is the score below its masks, a function of `product` (the first product, perhaps
    times a constant that is part of `scale`), of positions, and of `extras` (inputs with some of
    the score's axes). `result` are the output's axes as the kernel writes them.
    """

    program: Program
    q: Side
    k: Side
    v: Side
    heads: Dim
    rows: Dim
    cols: Dim
    score: int
    product: int
    scale: float
    mask: Mask
    extras: tuple[Side, ...]
    sink: Side | None
    output: Output
    result: tuple[Dim, Dim, Dim]
    precision: str

    @property
    def read(self) -> tuple[Side, ...]:
        """What the kernel reads besides queries, keys and values."""
        return (*self.extras, *([self.sink] if self.sink else []))

    @property
    def shared(self) -> Side | None:
        """An array of scores' size that several heads (the batch) read, if there is one."""
        for extra in self.extras:
            fewer = self.program.extent(extra.heads) < self.program.extent(self.heads)
            if extra.rows and extra.cols and extra.share == "inner" and fewer:
                return extra
        return None

    @property
    def plain(self) -> bool:
        """Whether the score is the product and nothing else."""
        return self.score == self.product

    @property
    def sizes(self) -> tuple[int, int, int, int, int]:
        """(heads, queries, keys, width of a key, width of a value) at full size."""
        extent = self.program.extent
        return (
            extent(self.heads),
            extent(self.rows),
            extent(self.cols),
            extent(self.q.cols),
            extent(self.v.cols),
        )

    @property
    def kv_heads(self) -> int:
        """Heads of keys and values at full size."""
        return self.program.extent(self.k.heads)


def match(program: Program) -> Attention:
    """The program as attention; raises Unsupported with the reason."""
    first, second, weights, values = two_products(program)
    output = program.outputs[0]
    softmax = read_softmax(program, weights, output.term, second)
    late = divided(program, output.term)
    if output.term != second and (not late or late[0] != second or divided(program, weights)):
        raise Unsupported("something follows the second product")
    pair = read_products(program, first, second, weights, values, softmax.keys)
    score, seen, hidden = unmask(program, softmax.scores)
    conditions = [*seen, *(_negated(program, c) for c in hidden)]
    score, product, scale = constant_factor(program, score, first)
    mask = read_mask(program, conditions, pair.rows, pair.cols)
    extras = _extras(program, [score, *mask.rest], product, (pair.heads, pair.rows, pair.cols))
    return Attention(
        program, pair.q, pair.k, pair.v, pair.heads, pair.rows, pair.cols, score, product,
        scale * pair.scale, mask, extras,
        _sink(program, softmax.sink, pair.heads, pair.rows), output,
        pair.result, pair.precision,
    )  # fmt: skip


def two_products(program: Program) -> tuple[int, int, int, int]:
    """(first product, second product, weights, values): the second multiplies values by weights
    that come from the first. Raises Unsupported for programs of another form.
    """
    dots = [t for t in program.live() if program[t].op == "dot"]
    if len(dots) != 2 or len(program.outputs) != 1:
        raise Unsupported("it is not two matrix products with one result")
    first, second = dots
    if first not in program.reach([second]):
        raise Unsupported("its products do not follow one another")
    left, right = program[second].args
    weights, values = (left, right) if first in program.reach([left]) else (right, left)
    return first, second, weights, values


@dataclass(frozen=True)
class Pair:
    """Two products, queries by keys and weights by values, over flattened heads.

    `scale` is what constants before the first product multiply it by; `result` see `Attention`.
    """

    q: Side
    k: Side
    v: Side
    heads: Dim
    rows: Dim
    cols: Dim
    result: tuple[Dim, Dim, Dim]
    scale: float
    precision: str


def read_products(
    program: Program, first: int, second: int, weights: int, values: int, over: Dim
) -> Pair:
    """The sides of two products, the second of them over the keys `over`."""
    dot: Dot = program[first].attr("dot")
    queries, keys = program[first].args
    q_free, k_free = dot.lhs_free, dot.rhs_free
    batch: list[tuple[Dim, Dim, Dim]] = [
        (res, mine, other)
        for (res, mine), (_, other) in zip(dot.lhs_batch, dot.rhs_batch, strict=True)
    ]
    contract = [(a, b) for a, b in dot.contract]
    if _results(q_free) == over:
        queries, keys, q_free, k_free = keys, queries, k_free, q_free
        batch = [(res, other, mine) for res, mine, other in batch]
        contract = [(b, a) for a, b in contract]
    cols = _results(k_free)
    if cols != over:
        raise Unsupported("the second product does not run over the keys of the first")
    positions = _positions(program, q_free)
    others = [pair for pair in q_free if pair != positions]
    heads = flat([res for res, _, _ in batch]) + _results(others)
    queries, factor = _peel(program, queries)
    keys, factor_2 = _peel(program, keys)
    q_spread = pair_up(program, heads, [*((r, q) for r, q, _ in batch), *others])
    k_spread = pair_up(program, heads, [(r, k) for r, _, k in batch])
    q = _side(program, queries, q_spread, positions[1], flat([a for a, _ in contract]))
    k = _keys(program, keys, k_spread, flat([d for _, d in k_free]), flat([b for _, b in contract]))
    rows = positions[0]
    v, result = _values(program, second, weights, values, heads, rows, cols)
    return Pair(q, k, v, heads, rows, cols, result, factor * factor_2, dot.precision)


def _results(pairs: Sequence[tuple[Dim, Dim]]) -> Dim:
    return flat([res for res, _ in pairs])


def _positions(program: Program, free: Pairs) -> tuple[Dim, Dim]:
    """The free dimension of the queries that counts positions: the one that a mask speaks of."""
    indexed = {program[t].attr("over") for t in program.live() if program[t].op == "iota"}
    real = [pair for pair in free if pair[0]]
    if not real:
        raise Unsupported("there is one query per head")
    spoken = [pair for pair in real if pair[0] in indexed]
    return (spoken or sorted(real, key=lambda pair: -program.extent(pair[0])))[0]


def _side(
    program: Program, term: int, spread: list[tuple[Axis, int, bool]], rows: Dim, cols: Dim
) -> Side:
    return side(program, term, present(spread, program[term].axes), rows, cols, "outer")


def _keys(
    program: Program, term: int, spread: list[tuple[Axis, int, bool]], rows: Dim, cols: Dim
) -> Side:
    """Keys may be joined of columns that each head has and columns that heads share."""
    if program[term].op != "join":
        return _side(program, term, spread, rows, cols)
    return joined_side(program, term, spread, rows, cols, "outer")


def _peel(program: Program, term: int) -> tuple[int, float]:
    """An input times a constant."""
    t = program[term]
    if t.op == "mul":
        value = program.literal(t.args[1])
        if value is not None:
            base, more = _peel(program, t.args[0])
            return base, more * float(value)
    return term, 1.0


def constant_factor(program: Program, score: int, dot: int) -> tuple[int, int, float]:
    """(score, product, scale): a constant that every use of the product carries is its scale."""
    region = program.reach([score], stop=lambda t: t == dot)
    users = [t for t in region if t != dot and dot in program[t].args]
    if len(users) == 1 and program[users[0]].op == "mul":
        value = program.literal(program[users[0]].args[1])
        if value is not None:
            return score, users[0], float(value)
    return score, dot, 1.0


def _negated(program: Program, condition: int) -> int:
    from maxkernel.engineers.builtin.build import Builder

    t = program[condition]
    return t.args[0] if t.op == "not" else Builder(program).raw("not", (condition,))


def _values(
    program: Program, second: int, weights: int, values: int, heads: Dim, rows: Dim, cols: Dim
) -> tuple[Side, tuple[Dim, Dim, Dim]]:
    """The values, and the axes of the second product's result by (heads, rows, columns)."""
    dot: Dot = program[second].attr("dot")
    mine = program[second].args[0] == weights
    p_batch, v_batch = (dot.lhs_batch, dot.rhs_batch) if mine else (dot.rhs_batch, dot.lhs_batch)
    p_free, v_free = (dot.lhs_free, dot.rhs_free) if mine else (dot.rhs_free, dot.lhs_free)
    contract = dot.contract if mine else tuple((b, a) for a, b in dot.contract)
    if flat([a for a, _ in contract]) != cols:
        raise Unsupported("the second product does not run over the keys")
    ties = [(p, v) for (_, p), (_, v) in zip(p_batch, v_batch, strict=True)]
    spread = pair_up(program, heads, ties)
    v = _side(program, values, spread, flat([b for _, b in contract]), flat([d for _, d in v_free]))
    outs = {p: res for res, p in (*p_batch, *p_free) if p}
    found: list[Dim] = []
    for wanted in (heads, rows):
        axes: Dim = ()
        while len(wanted):
            run = next((p for p in outs if wanted[: len(p)] == p), None)
            if run is None:
                raise Unsupported("the result mixes heads and positions")
            axes += outs[run]
            wanted = wanted[len(run) :]
        found.append(axes)
    return v, (found[0], found[1], _results(v_free))


def _extras(
    program: Program, roots: list[int], product: int, space: tuple[Dim, Dim, Dim]
) -> tuple[Side, ...]:
    """Inputs that the score or a mask reads."""
    heads, rows, cols = space
    found: list[Side] = []
    for term in program.reach(roots, stop=lambda t: t == product):
        t = program[term]
        if term == product:
            continue
        if t.op in (*REDUCTIONS, "dot", "size"):
            raise Unsupported(f"the score holds `{t.op}`")
        if t.op == "div" and t.kind == "int":
            raise Unsupported("the score holds a division of whole numbers")
        if t.op == "iota" and t.attr("over") not in (rows, cols):
            raise Unsupported("the score depends on an index of the head")
        if t.op == "input":
            found.append(_extra(program, term, heads, rows, cols))
    return tuple(found)


def _extra(program: Program, term: int, heads: Dim, rows: Dim, cols: Dim) -> Side:
    axes = program[term].axes
    spread = [(a, program.sizes[a], a in axes) for a in heads]
    for whole in (rows, cols):
        if axes & set(whole) and not axes >= set(whole):
            raise Unsupported("the score reads an array with part of a dimension")
    mine = tuple(whole if axes & set(whole) else () for whole in (rows, cols))
    return side(program, term, spread, mine[0], mine[1], "inner")


def _sink(program: Program, sink: int | None, heads: Dim, rows: Dim) -> Side | None:
    """A number per head, or per query where the heads share their sinks."""
    if sink is None:
        return None
    axes = program[sink].axes
    spread = [(a, program.sizes[a], a in axes) for a in heads]
    share(spread, "inner")
    return side(program, sink, spread, rows if axes & set(rows) else (), (), "inner")
