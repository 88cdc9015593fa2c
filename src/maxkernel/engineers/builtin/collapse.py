"""Sums over outputs of a matrix product, taken into the weights before the product.

sum_j (x w_j + b_j) = x (sum_j w_j) + sum_j b_j: where every run of columns is only summed, the
product needs one column per run. The sums of the weights are made in float32 and rounded once, as
each of the weights was.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from maxkernel.types import Graph, Node, TaskInfo, Value

_SCALING = ("mul", "div")


def collapsed(info: TaskInfo) -> TaskInfo | None:
    """The task with such sums taken into the weights; None where there are none, or where something
    else needs the outputs that are summed."""
    graph = info.graph
    for position, node in enumerate(graph.nodes):
        if node.op != "reduce_sum":
            continue
        rewriting = _Rewriting(graph)
        if rewriting.replace(node):
            nodes = (*graph.nodes[:position], *rewriting.nodes, *graph.nodes[position + 1 :])
            new = replace(graph, values=tuple(rewriting.values), nodes=nodes)
            live = _live(new)
            if rewriting.products.isdisjoint(v for n in live.nodes for v in n.outputs):
                changed = replace(info, graph=live)
                return collapsed(changed) or changed
    return None


def _live(graph: Graph) -> Graph:
    needed = set(graph.outputs)
    nodes: list[Node] = []
    for node in reversed(graph.nodes):
        if needed.intersection(node.outputs):
            needed.update(node.inputs)
            nodes.append(node)
    return replace(graph, nodes=tuple(reversed(nodes)))


class _Rewriting:
    """New nodes and values that stand for one sum."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.values = list(graph.values)
        self.nodes: list[Node] = []
        self.made = {v: node for node in graph.nodes for v in node.outputs}
        self.groups = 1
        self.products = set[int]()
        """Products that the sum no longer needs."""

    def replace(self, node: Node) -> bool:
        """Writes the sum anew; False where it does not go through to a product."""
        (source,) = node.inputs
        shape = self._shape(source)
        if [int(i) for i in node.params["axes"]] != [len(shape) - 1]:
            return False
        total = self._through(source)
        if total is None or not self.products:
            return False
        out = node.outputs[0]
        dtype = self.values[out].dtype
        if self._shape(total) != self._shape(out):
            total = self._add("reshape", (total,), self._shape(out), "float32")
        self.nodes.append(Node("convert_element_type", (total,), (out,), {"new_dtype": dtype}))
        return True

    def _through(self, value: int) -> int | None:
        """The sums of a value's runs of columns, (..., groups) in float32; None where a value is
        not linear in what it is summed over."""
        node = self.made.get(value)
        if node is None:
            return None
        if node.op == "convert_element_type" and "float" in self.values[node.inputs[0]].dtype:
            return self._through(node.inputs[0])
        if node.op == "reshape":
            return self._split(node)
        if node.op in ("add", "sub"):
            parts = [self._through(v) for v in node.inputs]
            return self._joined(node.op, parts)
        if node.op in _SCALING and self.values[node.inputs[1]].literal is not None:
            total = self._through(node.inputs[0])
            if total is None:
                return None
            return self._add(node.op, (total, node.inputs[1]), self._shape(total), "float32")
        if node.op == "broadcast_in_dim":
            return self._vector(node)
        if node.op == "dot_general":
            return self._product(node)
        return None

    def _split(self, node: Node) -> int | None:
        """Through a reshape that cuts columns into runs."""
        before, after = self._shape(node.inputs[0]), self._shape(node.outputs[0])
        if self.groups != 1 or before[:-1] != after[:-2] or len(after) != len(before) + 1:
            return None
        self.groups = after[-2]
        return self._through(node.inputs[0])

    def _joined(self, op: str, parts: list[int | None]) -> int | None:
        left, right = parts
        if left is None or right is None:
            return None
        shape = max((self._shape(v) for v in (left, right)), key=lambda s: (len(s), s))
        return self._add(op, (left, right), shape, "float32")

    def _vector(self, node: Node) -> int | None:
        """A vector along the columns, repeated over rows."""
        source, out = node.inputs[0], self._shape(node.outputs[0])
        places = [int(i) for i in node.params["broadcast_dimensions"]]
        if len(self._shape(source)) != 1 or places != [len(out) - 1]:
            return None
        if self._shape(source) != out[-1:]:
            return None
        total = self._sums(source, 0)
        shape = (*(1 for _ in out[:-1]), self.groups)
        params = {"broadcast_dimensions": places, "shape": list(shape)}
        return self._add("broadcast_in_dim", (total,), shape, "float32", params)

    def _product(self, node: Node) -> int | None:
        (left, right), (left_batch, _) = node.params["dimension_numbers"]
        x, w = node.inputs
        free = [i for i in range(len(self._shape(w))) if i not in [int(j) for j in right]]
        last = [int(i) for i in left] == [len(self._shape(x)) - 1]
        if left_batch or len(free) != 1 or len(right) != 1 or not last:
            return None
        kind = self.values[w].dtype
        sums = self._add(
            "convert_element_type",
            (self._sums(w, free[0]),),
            self._sized(w, free[0]),
            kind,
            {"new_dtype": kind},
        )
        self.products.add(node.outputs[0])
        if self.groups == 1:
            return self._vector_product(x, sums)
        shape = (*self._shape(node.outputs[0])[:-1], self.groups)
        params = {**node.params, "preferred_element_type": "float32"}
        return self._add("dot_general", (x, sums), shape, "float32", params)

    def _vector_product(self, x: int, vector: int) -> int:
        """Rows times one vector, (..., 1) in float32: no matter for the matrix unit."""
        shape = self._shape(x)
        flat = self._add("reshape", (vector,), shape[-1:], self.values[vector].dtype)
        spread = self._add(
            "broadcast_in_dim",
            (flat,),
            shape,
            self.values[vector].dtype,
            {"broadcast_dimensions": [len(shape) - 1], "shape": list(shape)},
        )
        wide = [
            self._add("convert_element_type", (v,), shape, "float32", {"new_dtype": "float32"})
            for v in (x, spread)
        ]
        product = self._add("mul", (wide[0], wide[1]), shape, "float32")
        total = self._add(
            "reduce_sum", (product,), shape[:-1], "float32", {"axes": [len(shape) - 1]}
        )
        return self._add("reshape", (total,), (*shape[:-1], 1), "float32")

    def _sums(self, value: int, axis: int) -> int:
        """Float32 sums of runs along one dimension of an input, `groups` of them."""
        shape = self._shape(value)
        runs = (*shape[:axis], self.groups, shape[axis] // self.groups, *shape[axis + 1 :])
        cut = self._add("reshape", (value,), runs, self.values[value].dtype)
        wide = self._add("convert_element_type", (cut,), runs, "float32", {"new_dtype": "float32"})
        return self._add(
            "reduce_sum", (wide,), self._sized(value, axis), "float32", {"axes": [axis + 1]}
        )

    def _sized(self, value: int, axis: int) -> tuple[int, ...]:
        shape = self._shape(value)
        return (*shape[:axis], self.groups, *shape[axis + 1 :])

    def _shape(self, value: int) -> tuple[int, ...]:
        return tuple(self.values[value].shape)

    def _add(
        self,
        op: str,
        inputs: tuple[int, ...],
        shape: tuple[int, ...],
        dtype: str,
        params: dict[str, Any] | None = None,
    ) -> int:
        self.values.append(Value(shape, dtype))
        out = len(self.values) - 1
        self.nodes.append(Node(op, inputs, (out,), params or {}))
        return out
