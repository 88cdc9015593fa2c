"""How a kernel gets the operands of a recurrence, and how it leaves the results: steps and batches
first, then heads, then what a head sees of one chunk.

Where chunks are whole tiles, arrays are passed uncut: the grid finds the chunks. Matrices narrower
than the lanes have positions along lanes, as XLA keeps them: nothing is copied then.
"""

from __future__ import annotations

from dataclasses import dataclass

from maxkernel.engineers.builtin.recurrence.around import CHUNK, Around
from maxkernel.engineers.builtin.recurrence.match import Recurrence
from maxkernel.engineers.builtin.text import call

LANES, SUBLANES = 128, 16


@dataclass(frozen=True)
class Array:
    """An operand or result of the kernel."""

    value: int
    """Of the loop's body."""
    steps: bool
    """Whether its first dimension is the chunks."""
    per_head: bool
    outer: tuple[int, ...]
    """Which batches it has."""
    order: tuple[int, ...]
    """Where its dimensions lie in the value `source` of the program."""
    tail: tuple[int, ...]
    """The dimensions that a head sees, in order."""
    along: int | None
    """Which of those are all positions, of which a step sees a chunk."""
    source: int

    @property
    def leading(self) -> int:
        """Dimensions before the heads."""
        return self.steps + len(self.outer)

    @property
    def rank(self) -> int:
        """Of what a head sees."""
        return len(self.tail)

    @property
    def is_matrix(self) -> bool:
        """Whether each head sees a matrix of its own."""
        return self.per_head and self.rank == 2

    @property
    def is_turned(self) -> bool:
        """Whether a head's matrix is there with its columns first."""
        return self.tail == (1, 0)

    def spec(self, batches: list[str], sizes: list[str]) -> str:
        """Its BlockSpec at indentation 12; `sizes`: those of the last dimensions."""
        index = [*(["n"] if self.steps else []), *(batches[k] for k in self.outer)]
        block = ["None"] * self.leading
        if self.per_head:
            block += ["heads"] if self.is_matrix else ["None", "heads"]
            index.append("g")
        ends = ["0", "0"]
        if self.along is not None:
            ends[self.along - self.rank] = "n"
        names, places = ", ".join([*batches, "g", "n"]), ", ".join([*index, *ends])
        shape = ", ".join([*block, *sizes])
        return call("pl.BlockSpec", [f"({shape})", f"lambda {names}: ({places})"], 12).lstrip()

    def extent(self, name: str, dimension: int) -> str:
        """The size of a dimension that a head sees, where the array is called `name`."""
        place = self.tail.index(dimension)
        return CHUNK if place == self.along else f"{name}.shape[{place - self.rank}]"


def operand(loop: Recurrence, around: Around, position: int) -> Array:
    """The array for an operand of the loop."""
    value, source = loop.one.inputs[position], loop.loop.inputs[position]
    if not loop.is_stacked(position):
        return _array(loop, value, False, source)
    found = around.uncut(source)
    if found is not None:
        cut, order = found
        # Dimensions of the uncut array: a step's own, of which the chunk is all positions.
        joined = [d - (d > cut.position) for d in order[1:]]
        chunk = order[1:].index(cut.position + 1) if cut.position + 1 in order[1:] else None
        uncut = _uncut(loop, value, chunk, joined, cut.node.inputs[0])
        if uncut is not None and order[0] == cut.position:
            return uncut
    return _array(loop, value, True, source)


def result(loop: Recurrence, around: Around, position: int) -> Array:
    """The array for a result of the loop."""
    value, source = loop.one.outputs[position], loop.loop.outputs[position]
    if position < loop.carried:
        return _array(loop, value, False, source)
    found = around.joined_again(source)
    if found is not None:
        merged, place, order = found
        joined = [k - (k > place) for k in (order.index(d + 1) for d in range(len(order) - 1))]
        if order[place] == 0:
            uncut = _uncut(loop, value, order[place + 1] - 1, joined, merged)
            if uncut is not None:
                return uncut
    return _array(loop, value, True, source)


def _array(loop: Recurrence, value: int, stacked: bool, source: int) -> Array:
    places = loop.places(value)
    first = [d for d in places if d is not None]
    kept = loop.kept(value)
    order = (*([0] if stacked else []), *(d + stacked for d in (*first, *kept)))
    outer = tuple(k for k, d in enumerate(places[:-1]) if d is not None)
    tail = tuple(range(len(kept)))
    return Array(value, stacked, places[-1] is not None, outer, order, tail, None, source)


def _uncut(
    loop: Recurrence, value: int, chunk: int | None, joined: list[int], source: int
) -> Array | None:
    """The array with all positions in one dimension, where chunks are whole tiles of it. `chunk`:
    the dimension of the body's value that is a chunk; `joined`: where each of its dimensions is in
    `source`."""
    plain = _array(loop, value, False, source)
    kept = loop.kept(value)
    if chunk not in kept or len(plain.order) != len(joined):
        return None
    seen = kept.index(chunk)
    shape = loop.one.values[value].shape
    tail = plain.tail
    if len(kept) == 2 and seen == 0 and shape[1] < LANES and shape[0] % LANES == 0:
        tail = (1, 0)
    along = tail.index(seen)
    if shape[seen] % (LANES if along == len(tail) - 1 else SUBLANES):
        return None
    first = plain.order[: len(plain.order) - len(kept)]
    order = tuple(joined[d] for d in (*first, *(kept[k] for k in tail)))
    return Array(value, False, plain.per_head, plain.outer, order, tail, along, source)
