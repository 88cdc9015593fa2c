"""Products with vectors, written as elementwise products and sums."""

from __future__ import annotations

import math

from msgspec.structs import replace

from maxkernel.engineers.builtin.batching import Writer
from maxkernel.engineers.builtin.layouts import dot_numbers
from maxkernel.types import Node, TaskInfo


def without_vector_products(info: TaskInfo) -> TaskInfo:
    """The task with every product that is no product of two matrices as a sum: per batch index
    one side is a vector, or nothing is contracted."""
    graph = info.graph
    writer = Writer(graph)
    for node in graph.nodes:
        if node.op == "dot_general" and _thin(writer, node):
            _spread(writer, node)
        else:
            writer.nodes.append(node)
    return replace(info, graph=writer.finished(graph.inputs, graph.outputs))


def _thin(writer: Writer, node: Node) -> bool:
    sizes = [
        math.prod(writer.shape(value)[i] for i in dims)
        for value, dims in zip((*node.inputs, node.inputs[0]), _dims(writer, node)[2:], strict=True)
    ]
    return 1 in sizes


def _dims(
    writer: Writer, node: Node
) -> tuple[list[int], list[int], list[int], list[int], list[int]]:
    """(batch of the left, of the right, free of the left, of the right, contracted of the left)."""
    lhs_c, rhs_c, lhs_b, rhs_b = dot_numbers(node)
    lhs, rhs = (len(writer.shape(v)) for v in node.inputs)
    lhs_f = [i for i in range(lhs) if i not in (*lhs_c, *lhs_b)]
    rhs_f = [i for i in range(rhs) if i not in (*rhs_c, *rhs_b)]
    return lhs_b, rhs_b, lhs_f, rhs_f, lhs_c


def _spread(writer: Writer, node: Node) -> None:
    """Writes (batch, free of the left, free of the right, contracted), summed over the last."""
    lhs, rhs = node.inputs
    lhs_b, rhs_b, lhs_f, rhs_f, lhs_c = _dims(writer, node)
    rhs_c = dot_numbers(node)[1]
    order = [(lhs, i) for i in (*lhs_b, *lhs_f)] + [(rhs, i) for i in rhs_f]
    order += [(lhs, i) for i in lhs_c]
    shape = [writer.shape(value)[i] for value, i in order]
    free = len(lhs_b) + len(lhs_f)
    last = range(free + len(rhs_f), len(shape))
    like = writer.values[node.outputs[0]]
    operands: list[int] = []
    for value, dims, places in (
        (lhs, [*lhs_b, *lhs_f, *lhs_c], [*range(free), *last]),
        (rhs, [*rhs_b, *rhs_f, *rhs_c], [*range(len(rhs_b)), *range(free, len(shape))]),
    ):
        permuted = value
        if dims != sorted(dims):
            turned = [writer.shape(value)[i] for i in dims]
            params = {"permutation": dims}
            permuted = writer.node("transpose", [value], writer.values[value], turned, params)
        operands.append(writer.spread(permuted, shape, places))
    if not last:
        writer.nodes.append(Node("mul", tuple(operands), node.outputs))
        return
    product = writer.node("mul", operands, like, shape, {})
    writer.nodes.append(Node("reduce_sum", (product,), node.outputs, {"axes": list(last)}))
