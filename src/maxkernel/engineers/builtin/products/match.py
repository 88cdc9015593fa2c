"""Recognises a feed-forward layer: f(x w_1, x w_2) w_3, with f elementwise, or its first half."""

from __future__ import annotations

from dataclasses import dataclass

from maxkernel.engineers.builtin.axes import Dim, Unsupported
from maxkernel.engineers.builtin.operands import flat
from maxkernel.engineers.builtin.terms import REDUCTIONS, Dot, InputUse, Output, Program


@dataclass(frozen=True)
class Weight:
    """A matrix that rows are multiplied by; `flipped`: it lies (out, in)."""

    term: int
    use: InputUse
    flipped: bool


@dataclass(frozen=True)
class FeedForward:
    """`hidden` is the term f(...) of the products `firsts`; `last`, if any, multiplies it."""

    program: Program
    x: InputUse
    firsts: tuple[int, ...]
    weights: tuple[Weight, ...]
    hidden: int
    hidden_dtype: str
    last: Weight | None
    output: Output
    sizes: tuple[int, int, int, int]
    """(rows, width, hidden width, width of the last product, 0 without) at full size."""


@dataclass(frozen=True)
class _Product:
    """rows (axes of the result) times a weight; `left` is the term of the rows."""

    left: int
    weight: Weight
    left_axes: Dim
    rows: Dim
    cols: Dim


def match(program: Program) -> FeedForward:
    """The program as a feed-forward layer; raises Unsupported with the reason."""
    dots = [t for t in program.live() if program[t].op == "dot"]
    if len(program.outputs) != 1 or len(dots) not in (2, 3):
        raise Unsupported("it is not two or three matrix products with one result")
    output = program.outputs[0]
    last = None
    if len(dots) == 3:
        if output.term not in dots:
            raise Unsupported("something follows the last product")
        last = _product(program, output.term)
    hidden = last.left if last else output.term
    firsts = tuple(t for t in dots if t != output.term)
    if len(firsts) != 2:
        raise Unsupported("its products follow one another")
    one, two = parts = [_product(program, t) for t in firsts]
    _check_firsts(program, firsts, one, two, hidden)
    x = program.input(one.left)
    if flat(x.dims) != one.left_axes or (last and last.left_axes != one.rows + one.cols):
        raise Unsupported("the left side lies in another order")
    cols = last.cols if last else one.cols
    if flat(output.dims) != (last.rows if last else one.rows) + cols:
        raise Unsupported("the result lies in another order")
    kind = output.dtype
    if last:
        dot: Dot = program[output.term].attr("dot")
        kind = dot.lhs_dtype if program[output.term].args[0] == last.left else dot.rhs_dtype
    narrow = (kind if last else "bfloat16", x.dtype, *(p.weight.use.dtype for p in parts))
    if any(d != "bfloat16" for d in narrow):
        raise Unsupported("products of other than bfloat16 values")
    extent = program.extent
    width = extent(one.left_axes) // extent(one.rows)
    sizes = (extent(one.rows), width, extent(one.cols), extent(cols) if last else 0)
    weights = (one.weight, two.weight)
    weight = last.weight if last else None
    return FeedForward(program, x, firsts, weights, hidden, kind, weight, output, sizes)


def _check_firsts(
    program: Program, firsts: tuple[int, ...], one: _Product, two: _Product, hidden: int
) -> None:
    """Raises Unsupported where the first products differ in more than their weights, or more than
    elementwise operations join them."""
    if one.left != two.left or program[one.left].op != "input":
        raise Unsupported("the first two products have different left sides")
    if (one.rows, one.cols) != (two.rows, two.cols):
        raise Unsupported("the first two products lie differently")
    for term in program.reach([hidden], stop=firsts.__contains__):
        if term not in firsts and program[term].op in (*REDUCTIONS, "input", "iota", "size"):
            raise Unsupported(f"`{program[term].op}` stands between the products")


def _product(program: Program, term: int) -> _Product:
    dot: Dot = program[term].attr("dot")
    if dot.lhs_batch:
        raise Unsupported("a product has batches")
    left, right = program[term].args
    sides = [
        (left, dot.lhs_free, [a for a, _ in dot.contract]),
        (right, dot.rhs_free, [b for _, b in dot.contract]),
    ]
    for (rows, free, inner), (weight, w_free, w_inner) in (sides, sides[::-1]):
        if program[weight].op != "input" or len(program.input(weight).dims) != 2:
            continue
        use = program.input(weight)
        ins, outs = flat(w_inner), flat([d for _, d in w_free])
        if flat(use.dims) not in (ins + outs, outs + ins):
            continue
        flipped = flat(use.dims) == outs + ins
        axes = flat([d for _, d in free]) + flat(inner)
        result_rows, cols = flat([r for r, _ in free]), flat([r for r, _ in w_free])
        return _Product(rows, Weight(weight, use, flipped), axes, result_rows, cols)
    raise Unsupported("no side of a product is a weight")
