"""The arrays of an attention: how their axes relate to heads, positions and the head dimension."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from maxkernel.engineers.builtin.axes import Axis, Dim, Unsupported
from maxkernel.engineers.builtin.operands import flat
from maxkernel.engineers.builtin.terms import REDUCTIONS, InputUse, Program

Share = Literal["outer", "inner"]
"""Which heads use one slice of an array: `outer`, consecutive ones (a group of query heads);
`inner`, every n-th one (the batch, where an array has none)."""


@dataclass(frozen=True)
class Side:
    """An array with a slice per head, heads flattened in the order of the scores.

    `rows` and `cols` are the axes of a slice, () where it has none. `term` is what the attention
    reads: the input `use`, or something computed from it row by row and from `vectors`, inputs
    along the columns. A side may be joined of `parts`, one after another along its columns, some
    with fewer heads; `use` is then the first part with all of them.
    """

    term: int
    use: InputUse
    heads: Dim
    rows: Dim
    cols: Dim
    share: Share
    vectors: tuple[InputUse, ...] = ()
    parts: tuple[Side, ...] = ()

    @property
    def axes(self) -> Dim:
        """All axes in the order in which the kernel takes them."""
        return self.heads + self.rows + self.cols


def side(
    program: Program,
    term: int,
    spread: Sequence[tuple[Axis, int, bool]],
    rows: Dim,
    cols: Dim,
    default: Share,
) -> Side:
    """An input whose head axes are those of `spread` (axis, size, whether the input has it)."""
    main, vectors = _sources(program, term, frozenset(rows), frozenset(cols))
    use = program.input(main)
    heads = tuple(axis for axis, _, present in spread if present)
    if sorted(flat(use.dims)) != sorted(heads + rows + cols):
        raise Unsupported(f"`{use.name}` has dimensions that attention does not know")
    return Side(term, use, heads, rows, cols, share(spread, default), vectors)


def joined_side(
    program: Program,
    term: int,
    spread: Sequence[tuple[Axis, int, bool]],
    rows: Dim,
    cols: Dim,
    default: Share,
) -> Side:
    """The same for a `join` of inputs along the columns, one of which several heads read."""
    if program[term].attr("over") != cols:
        raise Unsupported("an operand of a product is joined along something else than its columns")
    parts: list[Side] = []
    for arg, own in zip(program[term].args, program[term].attr("parts"), strict=True):
        if program[arg].op != "input":
            raise Unsupported("an operand of a product is joined of computed parts")
        heads = present(spread, program[arg].axes)
        parts.append(side(program, arg, heads, rows, own, default))
    whole = [p for p in parts if len(p.heads) == sum(has for _, _, has in spread)]
    if not whole or len(whole) == len(parts):
        raise Unsupported("an operand of a product is joined, and no part of it serves all heads")
    main = whole[0]
    return Side(term, main.use, main.heads, rows, cols, main.share, (), tuple(parts))


def _sources(
    program: Program, term: int, rows: frozenset[Axis], cols: frozenset[Axis]
) -> tuple[int, tuple[InputUse, ...]]:
    """The input that a term is computed from row by row, and the vectors that it reads."""
    if program[term].op == "input":
        return term, ()
    inside = program.reach([term])
    for t in inside:
        over = program[t].attr("over") if program[t].op in REDUCTIONS else ()
        if program[t].op in ("dot", "iota", "size", "join") or not cols.issuperset(over):
            raise Unsupported(f"an operand of a product holds `{program[t].op}`")
    inputs = [t for t in inside if program[t].op == "input"]
    main = [t for t in inputs if program[t].axes - cols]
    if len(main) != 1 or not rows <= program[main[0]].axes:
        raise Unsupported("an operand of a product is computed from several arrays")
    vectors = tuple(program.input(t) for t in inputs if t not in main)
    if any(flat(use.dims) not in ((), flat(program.input(main[0]).dims[-1:])) for use in vectors):
        raise Unsupported("an operand of a product reads a vector that lies otherwise")
    return main[0], vectors


def share(spread: Sequence[tuple[Axis, int, bool]], default: Share) -> Share:
    """How heads share the slices of an array; raises Unsupported for other patterns."""
    flags = [present for _, _, present in spread]
    count = sum(flags)
    if all(flags) or not count:
        return default
    if all(flags[:count]):
        return "outer"
    if all(flags[len(flags) - count :]):
        return "inner"
    raise Unsupported("heads share an array in a pattern that is neither grouped nor batched")


def pair_up(
    program: Program, left: Dim, pairs: Iterable[tuple[Dim, Dim]]
) -> list[tuple[Axis, int, bool]]:
    """For each left axis in order: the right axes that it is, with their sizes, all present.

    `pairs` ties runs of left axes to runs of right axes; left axes without one are absent.
    """
    by_left = {run[0]: (run, right) for run, right in pairs if run}
    found: list[tuple[Axis, int, bool]] = []
    position = 0
    while position < len(left):
        axis = left[position]
        run, right = by_left.get(axis, ((axis,), ()))
        if left[position : position + len(run)] != run:
            raise Unsupported("heads lie in another order in the second product")
        position += len(run)
        if right:
            found += [(a, program.sizes[a], True) for a in right]
        else:
            found.append((axis, program.sizes[axis], False))
    return found


def present(
    spread: Iterable[tuple[Axis, int, bool]], axes: frozenset[Axis]
) -> list[tuple[Axis, int, bool]]:
    """The same axes, those outside of `axes` marked as absent (the array is repeated there)."""
    return [(a, size, flag and a in axes) for a, size, flag in spread]
