"""An operator graph without some of its dimensions of size 1."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from maxkernel.engineers.builtin.layouts import REDUCE, dot_numbers
from maxkernel.types import Graph, Node

Place = tuple[int, int]
"""A dimension: (value, position)."""
SHAPING = ("reshape", "squeeze", "expand_dims", "broadcast_in_dim")


def dropped(graph: Graph, gone: set[Place]) -> Graph:
    """The graph without the dimensions `gone`, which no operation is about."""
    return _Rewriting(graph, gone).run()


class _Rewriting:
    """Writes every node without the dimensions that are `gone`."""

    def __init__(self, graph: Graph, gone: set[Place]) -> None:
        self.graph = graph
        self.gone = gone
        self.same: dict[int, int] = {}

    def kept(self, value: int) -> list[int]:
        rank = len(self.graph.values[value].shape)
        return [i for i in range(rank) if (value, i) not in self.gone]

    def shape(self, value: int) -> tuple[int, ...]:
        shape = self.graph.values[value].shape
        return tuple(shape[i] for i in self.kept(value))

    def now(self, value: int, dims: Iterable[int]) -> list[int]:
        """Where dimensions of a value lie afterwards, without those that are gone."""
        kept = self.kept(value)
        return [kept.index(i) for i in dims if i in kept]

    def run(self) -> Graph:
        nodes: list[Node] = []
        for node in self.graph.nodes:
            inputs = tuple(self.same.get(v, v) for v in node.inputs)
            out = node.outputs[0]
            if node.op in (*SHAPING, *REDUCE, "slice") and self._unchanged(node):
                self.same[out] = inputs[0]
                continue
            nodes.append(self._written(node, inputs))
        values = [replace(value, shape=self.shape(v)) for v, value in enumerate(self.graph.values)]
        outputs = tuple(self.same.get(v, v) for v in self.graph.outputs)
        return replace(self.graph, values=tuple(values), nodes=tuple(nodes), outputs=outputs)

    def _unchanged(self, node: Node) -> bool:
        """Whether nothing is left to do, now that a dimension is gone that the node dealt with."""
        touched = any(v == w for v, _ in self.gone for w in (node.inputs[0], node.outputs[0]))
        return touched and self.shape(node.inputs[0]) == self.shape(node.outputs[0])

    def _written(self, node: Node, inputs: tuple[int, ...]) -> Node:
        if not any(v == w for v, _ in self.gone for w in (*node.inputs, *node.outputs)):
            return replace(node, inputs=inputs)
        op, params = node.op, self._params(node)
        return replace(
            node,
            op="reshape" if op in ("squeeze", "expand_dims") else op,
            inputs=inputs,
            params=params,
        )

    def _params(self, node: Node) -> dict[str, Any]:
        source, out = node.inputs[0] if node.inputs else -1, node.outputs[0]
        params = dict(node.params)
        if node.op in ("reshape", "squeeze", "expand_dims"):
            return {"new_sizes": list(self.shape(out)), "dimensions": None, "sharding": None}
        if node.op == "broadcast_in_dim":
            places = [int(i) for i in params["broadcast_dimensions"]]
            kept = self.kept(source)
            moved = self.now(out, [places[i] for i in kept])
            return {**params, "shape": list(self.shape(out)), "broadcast_dimensions": moved}
        if node.op == "transpose":
            order = [int(i) for i in params["permutation"]]
            return {**params, "permutation": self.now(source, order)}
        if node.op in REDUCE:
            return {**params, "axes": self.now(source, [int(i) for i in params["axes"]])}
        if node.op == "cumsum":
            return {**params, "axis": self.now(source, [int(params["axis"])])[0]}
        if node.op in ("concatenate", "iota"):
            return {**params, "dimension": self.now(out, [int(params["dimension"])])[0]}
        if node.op == "slice":
            kept = self.kept(source)
            names = ("start_indices", "limit_indices", "strides")
            lists = {name: params[name] for name in names if params[name] is not None}
            return {**params, **{name: [v[i] for i in kept] for name, v in lists.items()}}
        if node.op == "dot_general":
            lhs_c, rhs_c, lhs_b, rhs_b = dot_numbers(node)
            left, right = node.inputs
            contract = [self.now(left, lhs_c), self.now(right, rhs_c)]
            batch = [self.now(left, lhs_b), self.now(right, rhs_b)]
            return {**params, "dimension_numbers": [contract, batch]}
        if node.op == "gather":
            return self._gather(node)
        return params

    def _gather(self, node: Node) -> dict[str, Any]:
        operand, indices = node.inputs
        whose = {
            "offset_dims": node.outputs[0],
            "collapsed_slice_dims": operand,
            "start_index_map": operand,
            "operand_batching_dims": operand,
            "start_indices_batching_dims": indices,
        }
        numbers: dict[str, list[int]] = node.params["dimension_numbers"]
        moved = {name: self.now(value, numbers[name]) for name, value in whose.items()}
        sizes = [node.params["slice_sizes"][i] for i in self.kept(operand)]
        return {**node.params, "dimension_numbers": {**numbers, **moved}, "slice_sizes": sizes}
