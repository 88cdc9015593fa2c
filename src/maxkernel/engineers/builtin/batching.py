"""An operator graph along one more dimension: what a loop's body computes in all steps at once.

A value that differs between steps has the step as its first dimension; others stay as they are,
and what follows from them alone is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.layouts import ELEMENTWISE, PASS_THROUGH, dot_numbers
from maxkernel.types import Graph, Node, Value

Params = dict[str, Any]
_REDUCTIONS = frozenset({"reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "argmax"})
_RUNNING = frozenset({"cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"})


class Writer:
    """A graph that grows: new values and nodes are appended."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.values = list(graph.values)
        self.nodes: list[Node] = []
        self.constants = dict(graph.constants)

    def shape(self, value: int) -> tuple[int, ...]:
        """Shape of a value."""
        return self.values[value].shape

    def value(self, like: Value, shape: Sequence[int]) -> int:
        """A new value of the type of `like`."""
        self.values.append(Value(tuple(shape), like.dtype, None, like.weak))
        return len(self.values) - 1

    def node(
        self, op: str, inputs: Sequence[int], like: Value, shape: Sequence[int], params: Params
    ) -> int:
        """A new node with one result."""
        out = self.value(like, shape)
        self.nodes.append(Node(op, tuple(inputs), (out,), params))
        return out

    def spread(self, value: int, shape: Sequence[int], places: Sequence[int]) -> int:
        """A value repeated to a shape; `places` says where its dimensions are in it."""
        params = {"shape": list(shape), "broadcast_dimensions": list(places), "sharding": None}
        return self.node("broadcast_in_dim", [value], self.values[value], shape, params)

    def moved(self, value: int, position: int) -> int:
        """A value with its dimension at `position` as its first one."""
        shape = self.shape(value)
        order = [position, *(i for i in range(len(shape)) if i != position)]
        turned = [shape[i] for i in order]
        return self.node("transpose", [value], self.values[value], turned, {"permutation": order})

    def mark(self) -> tuple[int, int]:
        """Where the graph ends now."""
        return len(self.values), len(self.nodes)

    def cut(self, mark: tuple[int, int]) -> None:
        """Drops what was written after a mark."""
        values, nodes = mark
        del self.values[values:], self.nodes[nodes:]
        self.constants = {v: data for v, data in self.constants.items() if v < values}

    def finished(self, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> Graph:
        """The graph."""
        return Graph(tuple(self.values), inputs, outputs, tuple(self.nodes), self.constants)


class Batch:
    """Writes a graph's nodes for all of `length` steps."""

    def __init__(self, writer: Writer, body: Graph, length: int) -> None:
        self.writer = writer
        self.body = body
        self.length = length
        self.known: dict[int, int] = {}
        """Values of the body as values of the writer."""
        self.batched = set[int]()
        """Those of the body that differ between steps."""

    def run(self, nodes: Sequence[Node]) -> None:
        """Writes nodes of the body; raises Unsupported for one without a rule."""
        for node in nodes:
            inputs = [self._read(v) for v in node.inputs]
            if self.batched.isdisjoint(node.inputs):
                self._once(node, inputs)
                continue
            rule = _rule(node)
            if rule is None or node.bodies or len(node.outputs) != 1:
                raise Unsupported(f"the operation `{node.op}` in a loop has no rule")
            (out,) = node.outputs
            self.known[out] = rule(self, node, inputs)
            self.batched.add(out)

    def along(self, value: int) -> int:
        """A value of the body with the steps as its first dimension."""
        known = self._read(value)
        if value in self.batched:
            return known
        shape = self.writer.shape(known)
        return self.writer.spread(known, (self.length, *shape), range(1, len(shape) + 1))

    def _read(self, value: int) -> int:
        if value not in self.known:
            self.writer.values.append(self.body.values[value])
            self.known[value] = len(self.writer.values) - 1
            if value in self.body.constants:
                self.writer.constants[self.known[value]] = self.body.constants[value]
        return self.known[value]

    def _once(self, node: Node, inputs: list[int]) -> None:
        for out in node.outputs:
            like = self.body.values[out]
            self.known[out] = self.writer.value(like, like.shape)
        outputs = tuple(self.known[out] for out in node.outputs)
        self.writer.nodes.append(replace(node, inputs=tuple(inputs), outputs=outputs))

    def write(self, node: Node, inputs: Sequence[int], params: Params) -> int:
        """The node along the steps, its result the body's with the steps in front."""
        like = self.body.values[node.outputs[0]]
        return self.writer.node(node.op, inputs, like, (self.length, *like.shape), params)


Rule = Callable[[Batch, Node, list[int]], int]


def _rule(node: Node) -> Rule | None:
    if node.op in ELEMENTWISE or node.op in PASS_THROUGH:
        return _elementwise
    if node.op in _REDUCTIONS:
        return _reduce
    return _running if node.op in _RUNNING else _RULES.get(node.op)


def _elementwise(batch: Batch, node: Node, inputs: list[int]) -> int:
    shape = batch.body.values[node.outputs[0]].shape
    full = (batch.length, *shape)
    operands: list[int] = []
    for mine, known in zip(node.inputs, inputs, strict=True):
        have = batch.writer.shape(known)
        if mine in batch.batched and have != full:
            known = batch.writer.spread(known, full, range(len(have)))
        elif mine not in batch.batched and have:
            known = batch.along(mine)
        operands.append(known)
    return batch.write(node, operands, node.params)


def _reduce(batch: Batch, node: Node, inputs: list[int]) -> int:
    axes = [int(a) + 1 for a in node.params["axes"]]
    return batch.write(node, inputs, {**node.params, "axes": axes})


def _running(batch: Batch, node: Node, inputs: list[int]) -> int:
    return batch.write(node, inputs, {**node.params, "axis": int(node.params["axis"]) + 1})


def _broadcast(batch: Batch, node: Node, inputs: list[int]) -> int:
    shape = [batch.length, *node.params["shape"]]
    places = [0, *(int(d) + 1 for d in node.params["broadcast_dimensions"])]
    return batch.write(
        node, inputs[:1], {**node.params, "shape": shape, "broadcast_dimensions": places}
    )


def _reshape(batch: Batch, node: Node, inputs: list[int]) -> int:
    sizes = [batch.length, *node.params["new_sizes"]]
    return batch.write(node, inputs[:1], {**node.params, "new_sizes": sizes})


def _shifted(batch: Batch, node: Node, inputs: list[int]) -> int:
    dimensions = [int(d) + 1 for d in node.params["dimensions"]]
    return batch.write(node, inputs, {**node.params, "dimensions": dimensions})


def _transpose(batch: Batch, node: Node, inputs: list[int]) -> int:
    order = [0, *(int(d) + 1 for d in node.params["permutation"])]
    return batch.write(node, inputs, {**node.params, "permutation": order})


def _concatenate(batch: Batch, node: Node, inputs: list[int]) -> int:
    operands = [batch.along(v) for v in node.inputs]
    dimension = int(node.params["dimension"]) + 1
    return batch.write(node, operands, {**node.params, "dimension": dimension})


def _slice(batch: Batch, node: Node, inputs: list[int]) -> int:
    strides = node.params["strides"]
    params = {
        "start_indices": [0, *node.params["start_indices"]],
        "limit_indices": [batch.length, *node.params["limit_indices"]],
        "strides": [1, *strides] if strides else None,
    }
    return batch.write(node, inputs, params)


def _dot(batch: Batch, node: Node, inputs: list[int]) -> int:
    """Steps are a batch dimension where both sides have them, else one of a side's own."""
    of = [v in batch.batched for v in node.inputs]
    left, right, left_batch, right_batch = dot_numbers(node)
    left, left_batch = ([d + of[0] for d in dims] for dims in (left, left_batch))
    right, right_batch = ([d + of[1] for d in dims] for dims in (right, right_batch))
    if all(of):
        left_batch, right_batch = [0, *left_batch], [0, *right_batch]
    numbers = [[left, right], [left_batch, right_batch]]
    params = {**node.params, "dimension_numbers": numbers}
    if all(of):
        return batch.write(node, inputs, params)
    like = batch.body.values[node.outputs[0]]
    first = len(left_batch)
    position = first if of[0] else len(batch.writer.shape(inputs[0])) - len(left)
    shape = list(like.shape)
    shape.insert(position, batch.length)
    made = batch.writer.node(node.op, inputs, like, shape, params)
    return batch.writer.moved(made, position) if position else made


_RULES: dict[str, Rule] = {
    "broadcast_in_dim": _broadcast,
    "reshape": _reshape,
    "squeeze": _shifted,
    "expand_dims": _shifted,
    "rev": _shifted,
    "transpose": _transpose,
    "concatenate": _concatenate,
    "slice": _slice,
    "dot_general": _dot,
}
