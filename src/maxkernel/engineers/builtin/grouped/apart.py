"""Every other column of a grouped product: such slices are taken of its weights instead.

Experts often keep a gate and what it gates in alternating columns of one array. A slice with a
stride commutes with everything that is done element by element, so that the program becomes one of
two products with every other column of the weights, which meet again in one kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec.structs import replace

from maxkernel.engineers.builtin.cuts import producers
from maxkernel.engineers.builtin.layouts import ELEMENTWISE, PASS_THROUGH
from maxkernel.types import Graph, Node, TaskInfo, Value

STRIDE = 2
_POINTWISE = ELEMENTWISE | PASS_THROUGH


def with_columns_apart(info: TaskInfo) -> TaskInfo:
    """The task with slices of every other column taken of the weights of its grouped products;
    itself where it has none, or where something needs a whole product too."""
    graph = info.graph
    sinking = _Sinking(graph)
    for node in graph.nodes:
        start = every_other(graph, node)
        if start is not None and sinking.follows(node.inputs[0]):
            sinking.same[node.outputs[0]] = sinking.sunk(node.inputs[0], start)
        else:
            inputs = tuple(sinking.same.get(v, v) for v in node.inputs)
            sinking.nodes.append(replace(node, inputs=inputs))
    if not sinking.products:
        return info
    outputs = tuple(sinking.same.get(v, v) for v in graph.outputs)
    changed = _living(replace(graph, values=tuple(sinking.values), outputs=outputs), sinking.nodes)
    whole = any(sinking.products.intersection(node.outputs) for node in changed.nodes)
    return info if whole else replace(info, graph=changed)


def every_other(graph: Graph, node: Node) -> int | None:
    """The first column of a slice that takes every other one of an even number and is whole
    otherwise; None for any other node."""
    if node.op != "slice" or not node.params["strides"]:
        return None
    shape = graph.values[node.inputs[0]].shape
    starts, limits, strides = (
        [int(i) for i in node.params[name]]
        for name in ("start_indices", "limit_indices", "strides")
    )
    plain = (
        not any(starts[:-1])
        and limits[:-1] == list(shape[:-1])
        and strides == [1] * (len(shape) - 1) + [STRIDE]
        and shape[-1] % STRIDE == 0
        and graph.values[node.outputs[0]].shape[-1] * STRIDE == shape[-1]
    )
    return starts[-1] if plain else None


def _living(graph: Graph, nodes: list[Node]) -> Graph:
    """The graph with those of the nodes that its outputs follow from."""
    needed, kept = set(graph.outputs), list[Node]()
    for node in reversed(nodes):
        if needed.intersection(node.outputs):
            needed.update(node.inputs)
            kept.append(node)
    return replace(graph, nodes=tuple(reversed(kept)))


@dataclass
class _Sinking:
    """Writes every other column of values as what follows from every other column of others."""

    graph: Graph
    nodes: list[Node] = field(default_factory=list[Node])
    same: dict[int, int] = field(default_factory=dict[int, int])
    """Slices that are gone, and what they are now."""
    products: set[int] = field(default_factory=set[int])
    """Grouped products of which slices were taken."""

    def __post_init__(self) -> None:
        self.values = list(self.graph.values)
        self.made = producers(self.graph)
        self.known: dict[tuple[int, int], int] = {}

    def follows(self, value: int) -> bool:
        """Whether a value is made of a grouped product, element by element."""
        node = self.made.get(value)
        if node is None:
            return False
        if node.op.startswith("ragged_dot"):
            return True
        shape = self.graph.values[value].shape
        same = [v for v in node.inputs if self.graph.values[v].shape == shape]
        return node.op in _POINTWISE and any(self.follows(v) for v in same)

    def sunk(self, value: int, start: int) -> int:
        """Every other column of a value, from `start`."""
        if (value, start) not in self.known:
            self.known[value, start] = self._sunk(value, start)
        return self.known[value, start]

    def _sunk(self, value: int, start: int) -> int:
        node, like = self.made.get(value), self.graph.values[value]
        shape = (*like.shape[:-1], like.shape[-1] // STRIDE)
        if node is None or len(node.outputs) != 1:
            return self._slice(value, start)
        if node.op in _POINTWISE:
            operands = [self.sunk(v, start) if self._wide(v) else v for v in node.inputs]
            return self._add(node, operands, shape)
        if node.op.startswith("ragged_dot"):
            self.products.add(value)
            rows, weights, *rest = node.inputs
            return self._add(node, [rows, self._slice(weights, start), *rest], shape)
        if node.op == "broadcast_in_dim":
            return self._spread(node, start, shape)
        if node.op == "gather" and self._whole_rows(node):
            sizes = [*node.params["slice_sizes"][:-1], shape[-1]]
            params = {**node.params, "slice_sizes": sizes}
            operands = [self.sunk(node.inputs[0], start), node.inputs[1]]
            return self._add(replace(node, params=params), operands, shape)
        return self._slice(value, start)

    def _wide(self, value: int) -> bool:
        return bool(self.graph.values[value].shape)

    def _spread(self, node: Node, start: int, shape: tuple[int, ...]) -> int:
        (source, *rest), out = node.inputs, self.graph.values[node.outputs[0]].shape
        places = [int(i) for i in node.params["broadcast_dimensions"]]
        along = places.index(len(out) - 1) if len(out) - 1 in places else None
        if along is not None and self.graph.values[source].shape[along] == out[-1]:
            source = self.sunk(source, start)
        params = {**node.params, "shape": list(shape)}
        return self._add(replace(node, params=params), [source, *rest], shape)

    def _whole_rows(self, node: Node) -> bool:
        """Whether a gather takes all columns of its operand, as the last dimension of its
        result."""
        numbers: dict[str, list[int]] = node.params["dimension_numbers"]
        columns = self.graph.values[node.inputs[0]].shape[-1]
        rank = len(self.graph.values[node.outputs[0]].shape)
        last = len(self.graph.values[node.inputs[0]].shape) - 1
        gone = [*numbers["collapsed_slice_dims"], *numbers["operand_batching_dims"]]
        return (
            node.params["slice_sizes"][-1] == columns
            and rank - 1 in numbers["offset_dims"]
            and last not in (*gone, *numbers["start_index_map"])
        )

    def _slice(self, value: int, start: int) -> int:
        shape = self.graph.values[value].shape
        params = {
            "start_indices": [*(0 for _ in shape[:-1]), start],
            "limit_indices": list(shape),
            "strides": [*(1 for _ in shape[:-1]), STRIDE],
        }
        node = Node("slice", (value,), (), params)
        return self._add(node, [value], (*shape[:-1], shape[-1] // STRIDE), value)

    def _add(
        self, node: Node, inputs: list[int], shape: tuple[int, ...], like: int | None = None
    ) -> int:
        made = self.graph.values[node.outputs[0] if like is None else like]
        self.values.append(Value(shape, made.dtype, None, made.weak))
        out = len(self.values) - 1
        operands = tuple(self.same.get(v, v) for v in inputs)
        self.nodes.append(replace(node, inputs=operands, outputs=(out,)))
        return out
