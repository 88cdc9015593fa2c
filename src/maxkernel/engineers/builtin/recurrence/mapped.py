"""Dimensions of a loop's state that every operation of its body maps over: batches and heads.

Dimensions of different values that run together are one class. A class along which something is
added up, cut or solved is used; one that is not, and that every state and stacked result has, only
repeats the body: its indices can be worked on one after another, or on different cores.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.layouts import ELEMENTWISE, PASS_THROUGH, dot_numbers
from maxkernel.types import Graph, Node

Place = tuple[int, int]
"""(value, dimension)"""
RANK = 2
"""Dimensions that are left of every value in a kernel: a matrix."""


class Classes:
    """Union-find over the dimensions of a body's values."""

    def __init__(self, body: Graph, carried: range) -> None:
        self.body = body
        self._parent: dict[Place, Place] = {}
        self._used = set[Place]()
        self._repeated: list[tuple[Place, Place]] = []
        """Dimensions of size 1, and those of other sizes that they meet."""
        read = (v for node in body.nodes for v in (*node.inputs, *node.outputs))
        self.values = sorted({*body.inputs, *body.outputs, *read})
        """Those that the body computes or reads."""
        for i, result in zip(carried, body.outputs, strict=False):
            self._tie_all(body.inputs[i], result)
        for node in body.nodes:
            self._node(node)

    def of(self, place: Place) -> Place:
        """The class of a dimension."""
        while place in self._parent:
            place = self._parent[place]
        return place

    def members(self, value: int, of: Place) -> list[int]:
        """The dimensions of a value that are in a class."""
        rank = len(self.body.values[value].shape)
        return [d for d in range(rank) if self.of((value, d)) == of]

    def only_maps(self, of: Place) -> bool:
        """Whether every operation maps over a class, and no value has it twice."""
        used = any(self.of(place) == of for place in self._used)
        return not used and all(len(self.members(v, of)) < 2 for v in self.values)

    def gone(self, chosen: Sequence[Place]) -> frozenset[Place]:
        """The classes `chosen`, and those of size 1 that only repeat along them."""
        found = set(chosen)
        while True:
            more = {self.of(thin) for thin, full in self._repeated if self.of(full) in found}
            if more <= found:
                return frozenset(found)
            found |= more

    def _tie(self, one: Place, two: Place) -> None:
        sizes = [self.body.values[value].shape[d] for value, d in (one, two)]
        if sizes[0] != sizes[1]:
            self._repeated.append((one, two) if sizes[0] == 1 else (two, one))
            return
        one, two = self.of(one), self.of(two)
        if one != two:
            self._parent[one] = two

    def _tie_all(self, one: int, two: int) -> None:
        rank = len(self.body.values[two].shape)
        if len(self.body.values[one].shape) == rank:
            for d in range(rank):
                self._tie((one, d), (two, d))

    def _node(self, node: Node) -> None:
        out = node.outputs[0] if node.outputs else -1
        if node.op in ELEMENTWISE or node.op in PASS_THROUGH:
            for value in node.inputs:
                self._tie_all(value, out)
        elif node.op in ("cumsum", "slice"):
            self._tie_all(node.inputs[0], out)
            self._used.update(
                (v, d) for d in touched(self.body, node) for v in (node.inputs[0], out)
            )
        elif node.op == "dot_general":
            self._dot(node, out)
        elif node.op == "triangular_solve":
            rank = len(self.body.values[out].shape)
            self._tie_all(node.inputs[1], out)
            for d in range(rank - 2):
                self._tie((node.inputs[0], d), (out, d))
            self._used |= {(out, rank - 2), *((node.inputs[0], rank - d) for d in (1, 2))}
        elif node.op == "iota":
            self._used.add((out, int(node.params["dimension"])))
        else:
            for d, source in enumerate(origins(self.body, node)):
                if source is not None:
                    self._tie((node.inputs[0], source), (out, d))
            if node.op.startswith("reduce_"):
                self._used.update((node.inputs[0], int(d)) for d in node.params["axes"])

    def _dot(self, node: Node, out: int) -> None:
        left, right = node.inputs
        left_over, right_over, left_batch, right_batch = dot_numbers(node)
        for i, j in (
            *zip(left_over, right_over, strict=True),
            *zip(left_batch, right_batch, strict=True),
        ):
            self._tie((left, i), (right, j))
        self._used.update((left, i) for i in left_over)
        for d, (side, source) in enumerate(dot_origins(self.body, node)):
            self._tie((node.inputs[side], source), (out, d))


def dot_origins(graph: Graph, node: Node) -> list[tuple[int, int]]:
    """For each dimension of a product's result, the side (0 or 1) and its dimension that it is."""
    left, right = node.inputs
    left_over, right_over, left_batch, right_batch = dot_numbers(node)
    free = [(0, d) for d in _others(graph, left, (*left_over, *left_batch))]
    free += [(1, d) for d in _others(graph, right, (*right_over, *right_batch))]
    return [*((0, d) for d in left_batch), *free]


def _others(graph: Graph, value: int, gone: tuple[int, ...]) -> list[int]:
    return [d for d in range(len(graph.values[value].shape)) if d not in gone]


def touched(body: Graph, node: Node) -> list[int]:
    """The dimensions along which a `cumsum` or `slice` does something."""
    if node.op == "cumsum":
        return [int(node.params["axis"])]
    before, after = (body.values[v].shape for v in (node.inputs[0], node.outputs[0]))
    return [d for d, n in enumerate(after) if before[d] != n]


def origins(body: Graph, node: Node) -> list[int | None]:
    """For each dimension of a node's result, the dimension of its operand that it is, or None for
    a new one; raises Unsupported for an operation without such a rule."""
    before = body.values[node.inputs[0]].shape if node.inputs else ()
    after = body.values[node.outputs[0]].shape if node.outputs else ()
    if node.op == "broadcast_in_dim":
        places = [int(d) for d in node.params["broadcast_dimensions"]]
        return [places.index(d) if d in places else None for d in range(len(after))]
    if node.op == "transpose":
        return [int(d) for d in node.params["permutation"]]
    if node.op.startswith("reduce_") and node.op.removeprefix("reduce_") in ("sum", "max", "min"):
        gone = {int(d) for d in node.params["axes"]}
        return [d for d in range(len(before)) if d not in gone]
    if node.op == "squeeze":
        gone = {int(d) % len(before) for d in node.params["dimensions"]}
        return [d for d in range(len(before)) if d not in gone]
    if node.op in ("reshape", "expand_dims"):
        return _matched(before, after)
    raise Unsupported(f"the operation `{node.op}` in a loop's body")


def _matched(before: tuple[int, ...], after: tuple[int, ...]) -> list[int | None]:
    """Dimensions of a reshape that only adds or drops dimensions of size 1."""
    found: list[int | None] = []
    i = 0
    for n in after:
        while i < len(before) and before[i] == 1 != n:
            i += 1
        if i < len(before) and before[i] == n:
            found.append(i)
            i += 1
        elif n == 1:
            found.append(None)
        else:
            raise Unsupported("a `reshape` in a loop's body that joins or splits dimensions")
    if any(n != 1 for n in before[i:]):
        raise Unsupported("a `reshape` in a loop's body that joins or splits dimensions")
    return found


def mapped(classes: Classes, carried: range, stacked: tuple[int, ...]) -> tuple[Place, ...]:
    """The fewest classes without which every value of the body is at most a matrix, in the order
    of the first state's dimensions. `stacked`: the results of every step. Raises Unsupported."""
    body = classes.body
    states = [body.inputs[i] for i in carried]
    rank = len(body.values[states[0]].shape)
    found: list[Place] = []
    for d in range(rank):
        of = classes.of((states[0], d))
        everywhere = all(classes.members(v, of) for v in (*states, *stacked))
        if everywhere and of not in found and classes.only_maps(of):
            found.append(of)
    for count in range(1, len(found) + 1):
        for chosen in itertools.combinations(found, count):
            gone = classes.gone(chosen)
            if all(_left(classes, v, gone) <= RANK for v in classes.values):
                return chosen
    raise Unsupported("its state has no heads whose values are matrices")


def _left(classes: Classes, value: int, gone: frozenset[Place]) -> int:
    rank = len(classes.body.values[value].shape)
    return sum(classes.of((value, d)) not in gone for d in range(rank))
