"""How much work a reference needs: operations of its products, bytes of its inputs and outputs."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, cast

from maxkernel.types.graph import Graph, Node

_READERS_OF_PARTS = frozenset({"gather", "dynamic_slice", "slice"})
"""Operators that read of their first operand what they return."""
_CHOOSERS = frozenset(
    {"gather", "dynamic_slice", "scan", "while", "cond", "dynamic_update_slice", "scatter"}
)
"""Operators after which it depends on data, or on a loop's body, what of an operand is needed."""


class Read(NamedTuple):
    """Elements of one input that are read."""

    least: int
    """By any program, whatever the values are."""
    usual: int
    """By a program that reads what the reference does."""


def flops(graph: Graph) -> float:
    """Operations (a multiply-add counts 2) of matrix products and convolutions.

    Scan bodies count once per trip, a `while` body once, a `cond` its cheapest branch.
    """
    return sum(_node_flops(graph, node) for node in graph.nodes)


def reads(graph: Graph) -> list[Read]:
    """How much of each input is read.

    Nothing of an input that the outputs do not depend on. An input that is only gathered or sliced
    counts what those operations take; what data choose may repeat, so of that nothing is certain.
    """
    return [_read(graph, index) for index in graph.inputs]


def widest(graph: Graph) -> int:
    """Elements of the largest value anywhere in the graph, loop bodies included."""
    sizes = [math.prod(value.shape) for value in graph.values]
    inner = [widest(body) for node in graph.nodes for body in node.bodies.values()]
    return max([*sizes, *inner, 0])


def _read(graph: Graph, index: int) -> Read:
    size = math.prod(graph.values[index].shape)
    if index in graph.outputs:
        return Read(size, size)
    least, usual, certain = 0, 0, True
    for node in (n for n in graph.nodes if index in n.inputs):
        certain &= node.op not in _CHOOSERS
        if node.op not in _READERS_OF_PARTS or index in node.inputs[1:]:
            least = usual = size
            continue
        taken = sum(math.prod(graph.values[i].shape) for i in node.outputs)
        least, usual = max(least, min(size, taken)), usual + taken
    return Read(least if certain else 0, min(size, usual))


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
