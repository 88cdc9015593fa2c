"""A batch of one inside a map: dimensions of size 1 that only stand between a map's and the rest.

`jax.vmap` of a program that is written for batches puts the mapped dimension in front of a batch
of one. Such a dimension is put into inputs, runs through the program and is taken out of the
results; without it, the program is the one that was written for batches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from maxkernel.engineers.builtin.dropping import SHAPING, Place, dropped
from maxkernel.engineers.builtin.layouts import ELEMENTWISE, PASS_THROUGH, REDUCE, dot_numbers
from maxkernel.types import Graph, Node, TaskInfo

_SAME = ELEMENTWISE | PASS_THROUGH


def without_units(info: TaskInfo) -> TaskInfo:
    """The task without such dimensions; itself where it has none."""
    graph = without_unit_dims(info.graph)
    return info if graph is info.graph else replace(info, graph=graph)


def without_unit_dims(graph: Graph) -> Graph:
    """The graph without the dimensions of a batch of one; itself where it has none."""
    units = _Units(graph)
    units.tie()
    gone = units.removable()
    return dropped(graph, gone) if gone else graph


class _Units:
    """Which dimensions of size 1 are the same one, and which of them are needed."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.parent: dict[Place, Place] = {}
        self.needed = set[Place]()

    def places(self, value: int) -> list[Place]:
        return [(value, i) for i, n in enumerate(self.graph.values[value].shape) if n == 1]

    def starts(self, value: int) -> dict[int, list[Place]]:
        """Its dimensions of size 1 by the number of elements that the ones before them span."""
        found: dict[int, list[Place]] = {}
        shape = self.graph.values[value].shape
        for place in self.places(value):
            found.setdefault(math.prod(shape[: place[1]]), []).append(place)
        return found

    def root(self, place: Place) -> Place:
        while self.parent.get(place, place) != place:
            place = self.parent[place]
        return place

    def same(self, pairs: Iterable[tuple[Place, Place]]) -> None:
        """Ties dimensions together, where both are of size 1."""
        for a, b in pairs:
            if all(self.graph.values[v].shape[i] == 1 for v, i in (a, b)):
                self.parent[self.root(a)] = self.root(b)

    def tie(self) -> None:
        """Follows dimensions through every node; what a node without a rule touches is needed."""
        for node in self.graph.nodes:
            rule = _TIES.get("same" if node.op in _SAME else node.op)
            if rule is None or node.bodies:
                for value in (*node.inputs, *node.outputs):
                    self.needed.update(self.places(value))
            else:
                rule(self, node)
        for value in (*self.graph.inputs, *self.graph.outputs, *self.graph.constants):
            self.needed.update(self.places(value))

    def removable(self) -> set[Place]:
        """All places of the dimensions that are put in behind the first one of inputs and needed
        nowhere; none where no result loses one of them."""
        needed = {self.root(p) for p in self.needed}
        put_in = {self.root(p) for n in self.graph.nodes for p in self._put_in(n)} - needed
        taken = {self.root(p) for n in self.graph.nodes for p in self._taken_out(n)}
        if not put_in & taken:
            return set()
        everywhere = [p for v in range(len(self.graph.values)) for p in self.places(v)]
        return {p for p in everywhere if self.root(p) in put_in}

    def _put_in(self, node: Node) -> list[Place]:
        if node.op not in SHAPING or node.inputs[0] not in self.graph.inputs:
            return []
        before, out = self.graph.values[node.inputs[0]].shape, node.outputs[0]
        after = self.graph.values[out].shape
        added = [i for i, n in enumerate(after) if n == 1 and i]
        return [(out, i) for i in added if after[:i] + after[i + 1 :] == before]

    def _taken_out(self, node: Node) -> list[Place]:
        if node.op not in SHAPING or node.outputs[0] not in self.graph.outputs:
            return []
        return self.places(node.inputs[0])


def _all(units: _Units, node: Node) -> None:
    """Operands and results of one shape; a dimension of size 1 against a longer one is needed."""
    (out, *_) = node.outputs
    shape = units.graph.values[out].shape
    for value in (*node.inputs, *node.outputs):
        if len(units.graph.values[value].shape) == len(shape):
            units.same(((value, i), (out, i)) for i in range(len(shape)))
            units.needed.update(p for p in units.places(value) if shape[p[1]] != 1)


def _reshape(units: _Units, node: Node) -> None:
    """Dimensions of size 1 are the same where as many elements lie before them."""
    after = units.starts(node.outputs[0])
    for start, places in units.starts(node.inputs[0]).items():
        units.same(zip(places, after.get(start, []), strict=False))


def _squeeze(units: _Units, node: Node) -> None:
    _without(units, node, node.params["dimensions"])


def _without(units: _Units, node: Node, gone: Iterable[int]) -> None:
    """The result has the operand's dimensions but for some."""
    rest = _rest(units, node.inputs[0], [int(i) for i in gone])
    units.same(((node.inputs[0], i), (node.outputs[0], j)) for j, i in enumerate(rest))


def _broadcast(units: _Units, node: Node) -> None:
    out, source = node.outputs[0], node.inputs[0]
    places = [int(i) for i in node.params["broadcast_dimensions"]]
    units.same(((source, i), (out, j)) for i, j in enumerate(places))


def _transpose(units: _Units, node: Node) -> None:
    order = [int(i) for i in node.params["permutation"]]
    units.same(((node.inputs[0], i), (node.outputs[0], j)) for j, i in enumerate(order))


def _reduce(units: _Units, node: Node) -> None:
    _without(units, node, node.params["axes"])


def _running(units: _Units, node: Node) -> None:
    _all(units, node)
    units.needed.add((node.inputs[0], int(node.params["axis"])))


def _joined(units: _Units, node: Node) -> None:
    _all(units, node)
    along = int(node.params["dimension"])
    units.needed.update((v, along) for v in (*node.inputs, *node.outputs))


def _slice(units: _Units, node: Node) -> None:
    before, after = (units.graph.values[v].shape for v in (node.inputs[0], node.outputs[0]))
    _all(units, node)
    cut = (i for i, (m, n) in enumerate(zip(before, after, strict=True)) if m != n)
    units.needed.update((node.outputs[0], i) for i in cut)


def _iota(units: _Units, node: Node) -> None:
    units.needed.add((node.outputs[0], int(node.params["dimension"])))


def _dot(units: _Units, node: Node) -> None:
    lhs_c, rhs_c, lhs_b, rhs_b = dot_numbers(node)
    (left, right), out = node.inputs, node.outputs[0]
    units.same(
        ((left, a), (right, b)) for a, b in zip((*lhs_c, *lhs_b), (*rhs_c, *rhs_b), strict=True)
    )
    units.same(
        ((left, a), (out, i)) for i, a in enumerate((*lhs_b, *_rest(units, left, lhs_c, lhs_b)))
    )
    start = len(units.graph.values[left].shape) - len(lhs_c)
    units.same(
        ((right, b), (out, start + i)) for i, b in enumerate(_rest(units, right, rhs_c, rhs_b))
    )


def _gather(units: _Units, node: Node) -> None:
    """Slices of the operand lie along `offset_dims` of the result, the indices along the others;
    a batch that operand and indices share is one dimension of both."""
    numbers: dict[str, list[int]] = node.params["dimension_numbers"]
    (operand, indices), out = node.inputs, node.outputs[0]
    shared = numbers["operand_batching_dims"], numbers["start_indices_batching_dims"]
    gone = {*numbers["collapsed_slice_dims"], *shared[0]}
    offsets = [i for i in range(len(units.graph.values[operand].shape)) if i not in gone]
    units.same(
        ((operand, a), (out, b)) for a, b in zip(offsets, numbers["offset_dims"], strict=True)
    )
    others = _rest(units, out, numbers["offset_dims"])
    units.same(((indices, i), (out, b)) for i, b in enumerate(others))
    units.same(((operand, a), (indices, b)) for a, b in zip(*shared, strict=True))
    found = (*numbers["collapsed_slice_dims"], *numbers["start_index_map"])
    units.needed.update((operand, i) for i in found)
    units.needed.add((indices, len(others)))


def _rest(units: _Units, value: int, *others: list[int]) -> list[int]:
    taken = {i for other in others for i in other}
    return [i for i in range(len(units.graph.values[value].shape)) if i not in taken]


_TIES: dict[str, Callable[[_Units, Node], None]] = {
    "same": _all,
    "reshape": _reshape,
    "squeeze": _squeeze,
    "expand_dims": _reshape,
    "broadcast_in_dim": _broadcast,
    "transpose": _transpose,
    **dict.fromkeys(REDUCE, _reduce),
    "cumsum": _running,
    "concatenate": _joined,
    "slice": _slice,
    "iota": _iota,
    "dot_general": _dot,
    "gather": _gather,
}
