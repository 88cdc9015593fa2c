"""Recognises a sum over blocks of the contraction of scaled partial products."""

from __future__ import annotations

import math
from dataclasses import dataclass

from maxkernel.engineers.builtin.axes import Dim, Unsupported
from maxkernel.engineers.builtin.operands import flat
from maxkernel.engineers.builtin.terms import Dot, InputUse, Program
from maxkernel.types import TaskInfo

LANES = 128
GROUPS = (4, 2, 1)
"""Blocks per grid step, as far as they divide: more of them store the accumulator less often."""


@dataclass(frozen=True)
class ScaledProduct:
    """out[m, n] = sum_b rows[m, b] cols[n, b] sum_{k in b} x[m, k] w[n, k]; one scale may be
    missing."""

    dot: Dot
    x: InputUse
    """(..., k); leading dimensions are rows."""
    w: InputUse
    flipped: bool
    """w lies (k, n), not (n, k)."""
    dtypes: tuple[str, str]
    """What the matrix unit reads of x and w."""
    rows: InputUse | None
    """Scales (..., blocks)."""
    cols: InputUse | None
    """Scales (columns or runs of them, blocks), or the other way round."""
    cols_flipped: bool
    repeats: int
    """Columns that share a scale."""
    sizes: tuple[int, int, int, int]
    """(m, n, blocks, elements of the contraction per block)."""
    group: int
    """Blocks per grid step."""


def match(program: Program, info: TaskInfo) -> ScaledProduct:
    """The program as such a sum; raises Unsupported with the reason."""
    output = program.outputs[0]
    total = program[output.term]
    if len(program.outputs) != 1 or total.op != "sum" or len(output.dims) < 2:
        raise Unsupported("it is no sum over blocks of a product")
    blocks: Dim = total.attr("over")
    product, scales = _factors(program, total.args[0])
    dot: Dot = program[product].attr("dot")
    rows, cols = flat(output.dims[:-1]), output.dims[-1]
    swapped = flat([d for d, _ in dot.lhs_free]) == cols
    x, w, flipped = _operands(program, product, blocks, rows, cols, swapped)
    found = {side: s for s in scales for side in (_side(s, blocks, rows, cols),)}
    if len(found) != len(scales):
        raise Unsupported("two scales of the same rows or columns")
    row_scale, col_scale = found.get("rows"), found.get("cols")
    repeats, turned = 1, False
    if col_scale:
        turned = col_scale.dims[0] == blocks
        repeats = program.extent(cols) // program.extent(col_scale.dims[1 if turned else 0])
    count = program.extent(blocks)
    depth = program.extent(x.dims[-1]) // count
    if depth % LANES:
        raise Unsupported(f"blocks of {depth} along the contraction are no whole registers")
    dtypes = (dot.rhs_dtype, dot.lhs_dtype) if swapped else (dot.lhs_dtype, dot.rhs_dtype)
    sizes = (program.extent(rows), program.extent(cols), count, depth)
    group = _group(info, x, count, depth)
    return ScaledProduct(
        dot, x, w, flipped, dtypes, row_scale, col_scale, turned, repeats, sizes, group
    )


def _factors(program: Program, term: int) -> tuple[int, list[InputUse]]:
    """(the product, the scales that it is multiplied with)."""
    products: list[int] = []
    scales: list[InputUse] = []
    stack = [term]
    while stack:
        index = stack.pop()
        t = program[index]
        if t.op == "mul":
            stack.extend(t.args)
        elif t.op == "input":
            scales.append(program.input(index))
        elif t.op == "dot" or (t.op == "to_float" and program[t.args[0]].op == "dot"):
            products.append(index if t.op == "dot" else t.args[0])
        else:
            raise Unsupported(f"a partial product is combined with `{t.op}`")
    if len(products) != 1 or not scales:
        raise Unsupported("it is no sum over blocks of a product with scales")
    return products[0], scales


def _operands(
    program: Program, product: int, blocks: Dim, rows: Dim, cols: Dim, swapped: bool
) -> tuple[InputUse, InputUse, bool]:
    """(x, w, whether w lies (k, n))."""
    dot: Dot = program[product].attr("dot")
    args = program[product].args
    if any(program[a].op != "input" for a in args):
        raise Unsupported("an operand of the product is computed")
    left = (program.input(args[0]), dot.lhs_batch, dot.lhs_free, [a for a, _ in dot.contract])
    right = (program.input(args[1]), dot.rhs_batch, dot.rhs_free, [b for _, b in dot.contract])
    mine, other = (right, left) if swapped else (left, right)
    for (_, batch, free, _), wanted in ((mine, rows), (other, cols)):
        if flat([d for d, _ in batch]) != blocks or flat([d for d, _ in free]) != wanted:
            raise Unsupported("the product lies in another order than its result")
    (x, x_batch, x_free, x_inner), (w, w_batch, w_free, w_inner) = mine, other
    x_depth, w_depth = (
        flat([*(d for _, d in batch), *inner])
        for batch, inner in ((x_batch, x_inner), (w_batch, w_inner))
    )
    x_rows, w_cols = (flat([d for _, d in free]) for free in (x_free, w_free))
    if (flat(x.dims[:-1]), x.dims[-1]) != (x_rows, x_depth):
        raise Unsupported(f"`{x.name}` lies in another order than (rows, contraction)")
    if w.dims not in ((w_cols, w_depth), (w_depth, w_cols)):
        raise Unsupported(f"`{w.name}` lies in another order than its product")
    return x, w, w.dims != (w_cols, w_depth)


def _side(scale: InputUse, blocks: Dim, rows: Dim, cols: Dim) -> str:
    """`rows` or `cols`: what a scale belongs to, besides the blocks."""
    if scale.dims[-1:] == (blocks,) and flat(scale.dims[:-1]) == rows:
        return "rows"
    others = [d for d in scale.dims if d != blocks]
    if len(scale.dims) == 2 and len(others) == 1 and cols[: len(others[0])] == others[0]:
        return "cols"
    raise Unsupported(f"`{scale.name}` is no scale per row or column and block")


def _group(info: TaskInfo, x: InputUse, count: int, depth: int) -> int:
    """The most blocks per step that divide those of both sizes."""
    check = info.check_inputs[x.index].shape[-1] // depth if info.check_inputs else count
    return next(g for g in GROUPS if math.gcd(count, check) % g == 0)
