"""What stands around a loop over chunks: cutting into chunks, padding, and the way back, for every
length.

At full size a padding may have no rows, and then nothing cuts the results afterwards; at other
sizes both are needed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from maxkernel.engineers.builtin import xla
from maxkernel.engineers.builtin.axes import Dim, Unsupported
from maxkernel.engineers.builtin.cuts import before_transposes, is_zero, producers
from maxkernel.engineers.builtin.expr import Code
from maxkernel.engineers.builtin.layouts import ELEMENTWISE
from maxkernel.engineers.builtin.recurrence.gates import softplus_of
from maxkernel.engineers.builtin.recurrence.match import Recurrence
from maxkernel.engineers.builtin.text import Names
from maxkernel.types import Graph, Node

CHUNK = "CHUNK"
_THROUGH = ELEMENTWISE | {"transpose", "copy", "broadcast_in_dim", "squeeze", "expand_dims"}
"""What may lie between the cut into chunks and the loop."""


@dataclass(frozen=True)
class Cut:
    """A reshape that cuts one dimension into chunks: its position, and the padding before it."""

    node: Node
    position: int
    padding: Node | None


def cuts(graph: Graph, loop: Recurrence) -> list[Cut]:
    """How the stacked operands of the loop were cut; raises Unsupported for one that was not."""
    made = producers(graph)
    found: dict[int, Cut] = {}
    for position, value in enumerate(loop.loop.inputs):
        if loop.is_stacked(position):
            own = list(_before(graph, made, value, int(loop.loop.params["length"])))
            if not own:
                raise Unsupported("stacked inputs of the loop that are no chunks of an array")
            found.update((cut.node.outputs[0], cut) for cut in own)
    return list(found.values())


def _before(graph: Graph, made: Mapping[int, Node], value: int, length: int) -> Iterator[Cut]:
    """The cuts that a value follows from by elementwise operations and changes of layout."""
    node = made.get(value)
    if node is None:
        return
    if node.op == "reshape":
        cut = cut_of(graph, made, node, length)
        if cut is not None:
            yield cut
    elif node.op in _THROUGH:
        for source in node.inputs:
            yield from _before(graph, made, source, length)


def cut_of(graph: Graph, made: Mapping[int, Node], node: Node, length: int) -> Cut | None:
    """The cut into `length` chunks that a reshape is, if it is one."""
    (source,), (out,) = node.inputs[:1], node.outputs
    before, after = graph.values[source].shape, graph.values[out].shape
    for d, n in enumerate(before):
        split = (*before[:d], *after[d : d + 2], *before[d + 1 :])
        if after == split and after[d] == length and after[d] * after[d + 1] == n:
            padding = made.get(source)
            return Cut(node, d, padding if padding is not None and padding.op == "pad" else None)
    return None


def _ordered(code: Code, order: Sequence[int]) -> Code:
    """An array with its dimensions in another order."""
    if list(order) == sorted(order):
        return code
    return Code(f"{code.at(100)}.transpose({', '.join(map(str, order))})")


class Around(xla.Writer):
    """Statements around a loop, in which lengths are whole chunks after padding."""

    def __init__(
        self,
        graph: Graph,
        arrays: Sequence[str],
        names: Names,
        constants: Mapping[str, Any],
        loop: Recurrence,
    ) -> None:
        super().__init__(graph, arrays, names, constants)
        found = cuts(graph, loop)
        chunks = {graph.values[c.node.outputs[0]].shape[c.position + 1] for c in found}
        if len(chunks) != 1 or int(loop.loop.params["length"]) == 1:
            raise Unsupported("stacked inputs of the loop with chunks of several sizes")
        (self.chunk,) = chunks
        self._cuts = {id(c.node): c for c in found}
        self._pads = {id(c.padding): c for c in found if c.padding is not None}
        self._steps = self._dim(found[0].node.outputs[0], found[0].position)
        self._inside = self._dim(found[0].node.outputs[0], found[0].position + 1)
        padded = [c for c in found if c.padding is not None]
        self._padding = padded[0] if padded else None
        self.moved: dict[int, tuple[str, list[int]]] = {}
        """Values that are there with their dimensions in another order: names, and the orders that
        bring them back."""

    def _dim(self, value: int, position: int) -> Dim:
        return self.sizes.table.resolve(self.sizes.dims[value][position])

    def _apply(self, node: Node, value: int) -> Code:
        if node.op == "pad":
            return self._pad(node)
        if node.op == "transpose":
            order = [int(d) for d in node.params["permutation"]]
            return self.transposed(node.inputs[0], order)
        if node.op == "reshape" and id(node) in self._cuts:
            return Code(
                self._resized(node.inputs[0], self._cuts[id(node)].position, 1, ("-1", CHUNK))
            )
        if node.op == "reshape":
            merged = self._merged(node)
            if merged is not None:
                return self._merge(node, merged)
            repeated = self._repeated(node)
            if repeated is not None:
                return repeated
        if node.op == "slice" and self._unpads(node):
            shape = self.graph.values[value].shape
            d = self._changed(node)
            parts = [":" if i != d else f": {self._length()}" for i in range(len(shape))]
            return Code(f"{self.full(node.inputs[0]).at(100)}[{', '.join(parts)}]")
        x = softplus_of(self.graph, self.made, node)
        if x is not None:
            return Code(f"jax.nn.softplus({self.full(x).text})")
        return super()._apply(node, value)

    def code(self, value: int) -> Code:
        """The expression of a value."""
        if value in self.moved and not self._is_joined(value):
            return self._back(value, range(len(self.graph.values[value].shape)))
        return super().code(value)

    def transposed(self, value: int, order: Sequence[int]) -> Code:
        """A value with its dimensions in another order, and transposes before it taken in."""
        node = self.made.get(value)
        if node is not None and node.op == "transpose" and value not in self.known:
            inner = [int(d) for d in node.params["permutation"]]
            return self.transposed(node.inputs[0], [inner[d] for d in order])
        if value in self.moved and not self._is_joined(value):
            return self._back(value, order)
        return _ordered(self.full(value), order)

    def _back(self, value: int, order: Sequence[int]) -> Code:
        name, back = self.moved[value]
        return _ordered(Code(name), [back[d] for d in order])

    def _is_joined(self, value: int) -> bool:
        node = self.made.get(value)
        return node is not None and node.op == "reshape"

    def uncut(self, value: int) -> tuple[Cut, tuple[int, ...]] | None:
        """The cut into chunks that a stacked operand is, and where its dimensions lie in what the
        cut makes, if nothing else lies between."""
        source, order = before_transposes(self.graph, self.made, value)
        node = self.made.get(source)
        cut = self._cuts.get(id(node)) if node is not None else None
        return None if cut is None else (cut, order)

    def joined_again(self, value: int) -> tuple[int, int, list[int]] | None:
        """Where a stacked result goes, if it is only joined again: the joined value, the dimension
        that was chunks, and where the dimensions of what is joined lie in the result."""
        order = list(range(len(self.graph.values[value].shape)))
        while True:
            users = [node for node in self.graph.nodes if value in node.inputs]
            if len(users) != 1 or value in self.graph.outputs:
                return None
            (node,) = users
            if node.op == "transpose":
                order = [order[int(d)] for d in node.params["permutation"]]
                (value,) = node.outputs
                continue
            place = self._merged(node) if node.op == "reshape" else None
            return None if place is None else (node.outputs[0], place, order)

    def _pad(self, node: Node) -> Code:
        source, filling = node.inputs
        cut = self._pads.get(id(node))
        if cut is None:
            raise Unsupported("a padding beside the kernels that fills no chunks")
        low, high, inner = (int(i) for i in node.params["padding_config"][cut.position])
        size = self.graph.values[source].shape[cut.position]
        others = [p for d, p in enumerate(node.params["padding_config"]) if d != cut.position]
        if low or inner or high != -size % self.chunk or any(any(p) for p in others):
            raise Unsupported("a padding beside the kernels that fills no chunks")
        name = self.value(source)
        zero = is_zero(self.graph.values, self.made, filling)
        end = "" if zero else f", constant_values={self.code(filling).text}"
        parts = ["(0, 0)"] * (len(others) + 1)
        parts[cut.position] = f"(0, -{name}.shape[{cut.position}] % {CHUNK})"
        return Code(f"jnp.pad({name}, ({', '.join(parts)}){end})")

    def _resized(self, source: int, position: int, gone: int, new: Sequence[str]) -> str:
        """An array with some dimensions replaced by others; batches may have any size, also where
        there is one at full size."""
        name, rank = self.value(source), len(self.graph.values[source].shape)
        sizes = [*([f"*{name}.shape[:{position}]"] if position > 1 else []), *new]
        if position == 1:
            sizes.insert(0, f"{name}.shape[0]")
        if position + gone < rank:
            sizes.append(f"*{name}.shape[{position + gone}:]")
        return f"{name}.reshape({', '.join(sizes)})"

    def _merged(self, node: Node) -> int | None:
        """Where a reshape joins chunks into one dimension again, and does nothing else."""
        (source,), (out,) = node.inputs[:1], node.outputs
        before, after = (self.graph.values[v].shape for v in (source, out))
        dims = [self._dim(source, d) for d in range(len(before))]
        for d, pair in enumerate(itertools.pairwise(dims)):
            joined = (*before[:d], before[d] * before[d + 1], *before[d + 2 :])
            if pair == (self._steps, self._inside) and joined == after:
                return d
        return None

    def _repeated(self, node: Node) -> Code | None:
        """`jnp.repeat`, where a reshape joins a dimension with one that a broadcast added."""
        spread = self.made.get(node.inputs[0])
        if spread is None or spread.op != "broadcast_in_dim":
            return None
        (source,), (wide,), (out,) = spread.inputs[:1], spread.outputs, node.outputs
        before, full, after = (self.graph.values[v].shape for v in (source, wide, out))
        places = [int(d) for d in spread.params["broadcast_dimensions"]]
        new = [d for d in range(len(full)) if d not in places]
        if len(new) != 1 or new == [0] or [full[d] for d in places] != list(before):
            return None
        axis = new[0] - 1
        if after != (*full[:axis], full[axis] * full[axis + 1], *full[axis + 2 :]):
            return None
        count = self.sizes.text(self.sizes.dims[wide][new[0]])
        return Code(f"jnp.repeat({self.full(source).text}, {count}, axis={axis})")

    def _merge(self, node: Node, position: int) -> Code:
        (value,) = node.outputs
        if value in self.moved:
            text = self._back(value, range(len(self.graph.values[value].shape))).at(100)
        else:
            text = self._resized(node.inputs[0], position, 2, ("-1",))
        if self._padding is not None and self._hidden():
            # Written so that programs are alike at all sizes: an index would vanish at some.
            text = f"jax.lax.slice_in_dim({text}, 0, {self._length()}, axis={position})"
        return Code(text)

    def _hidden(self) -> bool:
        """Whether the padding has no rows at full size, so that no slice takes them away."""
        assert self._padding is not None and self._padding.padding is not None
        pad = self._padding.padding
        before, after = (self.graph.values[v].shape for v in (pad.inputs[0], pad.outputs[0]))
        return before == after

    def _length(self) -> str:
        """The length before padding."""
        assert self._padding is not None and self._padding.padding is not None
        return self.sizes.text(
            self.sizes.dims[self._padding.padding.inputs[0]][self._padding.position]
        )

    def _changed(self, node: Node) -> int:
        before, after = (self.graph.values[v].shape for v in (node.inputs[0], node.outputs[0]))
        return next((d for d, n in enumerate(after) if before[d] != n), -1)

    def _unpads(self, node: Node) -> bool:
        """Whether a slice takes away what the padding added."""
        if self._padding is None or self._padding.padding is None:
            return False
        pad, d = self._padding.padding, self._changed(node)
        shapes = [self.graph.values[v].shape for v in (pad.inputs[0], pad.outputs[0])]
        sizes = [shape[self._padding.position] for shape in shapes]
        before, after = (self.graph.values[v].shape for v in (node.inputs[0], node.outputs[0]))
        cut = sum(a != b for a, b in zip(before, after, strict=True))
        begins = all(int(i) == 0 for i in node.params["start_indices"])
        return d >= 0 and cut == 1 and begins and [after[d], before[d]] == sizes
