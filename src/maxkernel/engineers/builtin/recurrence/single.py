"""A loop's body for one index of its mapped dimensions: every value a matrix, a vector or a scalar.

Operations are those of jaxprs, with three exceptions. `place` lays a value's dimensions out among
those of the result (`origins`: the operand's dimension for each of the result's, None for a new
one, along which it repeats). `dot_general` multiplies two matrices (`left` and `right`: the
dimension of each that is added up). All other products are written as `mul` and `reduce_sum`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.layouts import ELEMENTWISE, PASS_THROUGH, dot_numbers
from maxkernel.engineers.builtin.recurrence.mapped import (
    RANK,
    Classes,
    Place,
    dot_origins,
    origins,
    touched,
)
from maxkernel.types import Graph, Node, Value


def single(classes: Classes, gone: frozenset[Place]) -> Graph:
    """The body without the classes `gone`; values keep their numbers, new ones follow."""
    return _Single(classes, gone).graph()


class _Single:
    def __init__(self, classes: Classes, gone: frozenset[Place]) -> None:
        self.body = classes.body
        self.kept = [
            [d for d in range(len(v.shape)) if classes.of((i, d)) not in gone]
            for i, v in enumerate(self.body.values)
        ]
        self.values = [
            replace(v, shape=tuple(v.shape[d] for d in kept))
            for v, kept in zip(self.body.values, self.kept, strict=True)
        ]
        self.nodes: list[Node] = []

    def graph(self) -> Graph:
        for node in self.body.nodes:
            self._node(node)
        return Graph(tuple(self.values), self.body.inputs, self.body.outputs, tuple(self.nodes), {})

    def _node(self, node: Node) -> None:
        if node.bodies or any(v in self.body.constants for v in node.inputs):
            raise Unsupported(f"the operation `{node.op}` in a loop's body")
        (out,) = node.outputs
        if node.op in ELEMENTWISE or node.op in PASS_THROUGH:
            if any(len(self.kept[v]) not in (0, len(self.kept[out])) for v in node.inputs):
                raise Unsupported("a value that repeats along heads in one place only")
            self.nodes.append(node)
        elif node.op in ("cumsum", "slice"):
            self._along(node)
        elif node.op == "iota":
            dimension = self.kept[out].index(int(node.params["dimension"]))
            self._add("iota", (), out, {"dimension": dimension})
        elif node.op == "triangular_solve":
            self._solve(node)
        elif node.op == "dot_general":
            self._dot(node, out)
        elif node.op.startswith("reduce_"):
            origins(self.body, node)  # Raises for the kinds that are not known.
            axes = [self.kept[node.inputs[0]].index(int(d)) for d in node.params["axes"]]
            self._add(node.op, node.inputs, out, {"axes": axes})
        else:
            self._place(node, out)

    def _add(self, op: str, inputs: Sequence[int], out: int, params: dict[str, Any]) -> int:
        self.nodes.append(Node(op, tuple(inputs), (out,), params))
        return out

    def _new(self, shape: Sequence[int], dtype: str) -> int:
        self.values.append(Value(tuple(shape), dtype))
        return len(self.values) - 1

    def _place(self, node: Node, out: int) -> None:
        source = self.kept[node.inputs[0]] if node.inputs else []
        all_origins = origins(self.body, node)
        places = [all_origins[d] for d in self.kept[out]]
        params = {"origins": [source.index(d) if d in source else None for d in places]}
        self._add("place", node.inputs[:1], out, params)

    def _along(self, node: Node) -> None:
        (source,), (out,) = node.inputs[:1], node.outputs
        along = [self.kept[out].index(d) for d in touched(self.body, node)]
        if node.op == "cumsum":
            params = {"axis": along[0], "reverse": bool(node.params["reverse"])}
            self._add("cumsum", (source,), out, params)
            return
        if any(int(s) != 1 for s in node.params["strides"] or ()):
            raise Unsupported("a slice with strides in a loop's body")
        starts = [int(node.params["start_indices"][d]) for d in self.kept[out]]
        self._add("slice", (source,), out, {"starts": starts})

    def _solve(self, node: Node) -> None:
        p = node.params
        plain = p["left_side"] and p["lower"] and p["unit_diagonal"] and not p["transpose_a"]
        if not plain:
            raise Unsupported("a triangular system other than a unit lower one from the left")
        self._add("triangular_solve", node.inputs, node.outputs[0], {})

    def _dot(self, node: Node, out: int) -> None:
        left, right = node.inputs
        left_over, right_over, left_batch, _ = dot_numbers(node)
        over = [(i, j) for i, j in zip(left_over, right_over, strict=True) if i in self.kept[left]]
        ranks = {len(self.kept[v]) for v in node.inputs}
        batch = [d for d in left_batch if d in self.kept[left]]
        if len(over) == 1 and not batch and ranks == {RANK}:
            params = {
                "left": self.kept[left].index(over[0][0]),
                "right": self.kept[right].index(over[0][1]),
                "precision": str(node.params.get("precision") or ""),
            }
            self._add("dot_general", node.inputs, out, params)
            return
        self._as_sum(node, out, over)

    def _as_sum(self, node: Node, out: int, over: list[tuple[int, int]]) -> None:
        """A product of vectors, or of the same rows, as a sum of products of elements."""
        numbers = dot_numbers(node)
        partner = dict(zip(numbers[2], numbers[3], strict=True))
        of_result = [dot_origins(self.body, node)[d] for d in self.kept[out]]
        joint: list[dict[int, int]] = []
        for side, d in of_result:
            both = side == 0 and d in partner
            joint.append({0: d, 1: partner[d]} if both else {side: d})
        joint += [{0: i, 1: j} for i, j in over]
        if len(joint) > RANK:
            raise Unsupported("a product in a loop's body whose factors are more than matrices")
        shapes = [self.body.values[v].shape for v in node.inputs]
        sizes = [next(shapes[side][d] for side, d in dims.items()) for dims in joint]
        dtype = self.body.values[out].dtype
        factors = [
            self._spread(v, [dims.get(side) for dims in joint], sizes, dtype)
            for side, v in enumerate(node.inputs)
        ]
        if not over:
            self._add("mul", factors, out, {})
            return
        whole = self._add("mul", factors, self._new(sizes, dtype), {})
        axes = list(range(len(of_result), len(joint)))
        self._add("reduce_sum", (whole,), out, {"axes": axes})

    def _spread(self, value: int, dims: list[int | None], sizes: list[int], dtype: str) -> int:
        source = value
        if self.values[value].dtype != dtype:
            wide = self._new(self.values[value].shape, dtype)
            source = self._add("convert_element_type", (value,), wide, {"new_dtype": dtype})
        kept = self.kept[value]
        params = {"origins": [None if d is None else kept.index(d) for d in dims]}
        return self._add("place", (source,), self._new(sizes, dtype), params)
