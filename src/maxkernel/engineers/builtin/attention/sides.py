"""The arrays of an attention: how their axes relate to heads, positions and the head dimension."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from maxkernel.engineers.builtin.axes import Axis, Dim, Unsupported
from maxkernel.engineers.builtin.operands import flat
from maxkernel.engineers.builtin.terms import InputUse, Program

Share = Literal["outer", "inner"]
"""Which heads use one slice of an array: `outer`, consecutive ones (a group of query heads);
`inner`, every n-th one (the batch, where an array has none)."""


@dataclass(frozen=True)
class Side:
    """An array with a slice per head, heads flattened in the order of the scores.

    `rows` and `cols` are the axes of a slice, () where it has none.
    """

    term: int
    use: InputUse
    heads: Dim
    rows: Dim
    cols: Dim
    share: Share

    @property
    def axes(self) -> Dim:
        """All axes in the order in which the kernel takes them."""
        return self.heads + self.rows + self.cols

    @property
    def lies(self) -> bool:
        """Whether the kernel takes the array as it lies in memory."""
        return flat(self.use.dims) == self.axes


def side(
    program: Program,
    term: int,
    spread: Sequence[tuple[Axis, int, bool]],
    rows: Dim,
    cols: Dim,
    default: Share,
) -> Side:
    """An input whose head axes are those of `spread` (axis, size, whether the input has it)."""
    if program[term].op != "input":
        raise Unsupported("queries, keys or values are computed in a way that has no rule")
    use = program.input(term)
    heads = tuple(axis for axis, _, present in spread if present)
    if sorted(flat(use.dims)) != sorted(heads + rows + cols):
        raise Unsupported(f"`{use.name}` has dimensions that attention does not know")
    return Side(term, use, heads, rows, cols, share(spread, default))


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
