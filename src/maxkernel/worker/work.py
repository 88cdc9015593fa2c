"""How much work a reference needs: operations of its products, bytes of its inputs and outputs."""

from __future__ import annotations

import math
from typing import Any, cast

from maxkernel.types.graph import Graph, Node

_READERS_OF_PARTS = frozenset({"gather", "dynamic_slice", "slice"})


def flops(graph: Graph) -> float:
    """Operations (a multiply-add counts 2) of matrix products and convolutions.

    Scan bodies count once per trip, a `while` body once, a `cond` its cheapest branch.
    """
    return sum(_node_flops(graph, node) for node in graph.nodes)


def io_elements(graph: Graph) -> list[int]:
    """Elements of each input that any program must read.

    0 for an input that the outputs do not depend on; an input that is only gathered or sliced
    counts what those operations take.
    """
    return [_elements_read(graph, index) for index in graph.inputs]


def widest(graph: Graph) -> int:
    """Elements of the largest value anywhere in the graph, loop bodies included."""
    sizes = [math.prod(value.shape) for value in graph.values]
    inner = [widest(body) for node in graph.nodes for body in node.bodies.values()]
    return max([*sizes, *inner, 0])


def _elements_read(graph: Graph, index: int) -> int:
    size = math.prod(graph.values[index].shape)
    if index in graph.outputs:
        return size
    taken = 0
    for node in graph.nodes:
        if index not in node.inputs:
            continue
        if node.op not in _READERS_OF_PARTS or index in node.inputs[1:]:
            return size
        taken += sum(math.prod(graph.values[i].shape) for i in node.outputs)
    return min(size, taken)


def _node_flops(graph: Graph, node: Node) -> float:
    if node.op in ("dot_general", "ragged_dot", "ragged_dot_general"):
        return _dot_flops(graph, node)
    if node.op == "conv_general_dilated":
        return _conv_flops(graph, node)
    if node.op == "scan":
        return node.params["length"] * sum(flops(body) for body in node.bodies.values())
    if node.op == "cond":
        return min((flops(body) for body in node.bodies.values()), default=0.0)
    return sum(flops(body) for body in node.bodies.values())


def _dot_flops(graph: Graph, node: Node) -> float:
    out = math.prod(graph.values[node.outputs[0]].shape)
    left = graph.values[node.inputs[0]].shape
    if node.op == "ragged_dot":
        return 2.0 * out * left[-1]
    numbers: Any = (
        node.params.get("dimension_numbers") or node.params["ragged_dot_dimension_numbers"]
    )
    if isinstance(numbers, dict):
        numbers = cast(Any, numbers)["dot_dimension_numbers"]
    contracted = cast(list[int], numbers[0][0])
    return 2.0 * out * math.prod(left[axis] for axis in contracted)


def _conv_flops(graph: Graph, node: Node) -> float:
    out = math.prod(graph.values[node.outputs[0]].shape)
    kernel = graph.values[node.inputs[1]].shape
    layout = cast(dict[str, list[int]], node.params["dimension_numbers"])
    features = kernel[layout["rhs_spec"][0]]
    dilation = math.prod(cast(list[int], node.params.get("lhs_dilation") or [1]))
    return 2.0 * out * math.prod(kernel) / features / dilation
