"""Loops that are none: what every step computes alone, for all steps at once.

A `scan` whose steps hand nothing on is its body along one more dimension. So is one that only adds
up (or keeps the largest or smallest of) what its steps compute, with a reduction behind it.
"""

from __future__ import annotations

from msgspec.structs import replace

from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.batching import Batch, Writer
from maxkernel.engineers.builtin.cuts import is_zero
from maxkernel.types import Graph, Node, TaskInfo

_GATHERED = {"add": "reduce_sum", "max": "reduce_max", "min": "reduce_min"}
"""How a step's result may join the carry, and the reduction that does it for all steps."""


def without_loops(info: TaskInfo) -> TaskInfo:
    """The task with such loops as operations on arrays; other loops stay as they are."""
    graph = flattened(info.graph)
    return info if graph is info.graph else replace(info, graph=graph)


def flattened(graph: Graph) -> Graph:
    """The graph without loops whose steps do not depend on each other; itself if it has none."""
    if not any(node.op == "scan" for node in graph.nodes):
        return graph
    writer = Writer(graph)
    same: dict[int, int] = {}
    changed = False
    for node in graph.nodes:
        node = replace(node, inputs=tuple(same.get(v, v) for v in node.inputs))
        mark = writer.mark()
        try:
            found = _all_steps(writer, node)
        except Unsupported:
            writer.cut(mark)
            writer.nodes.append(node)
            continue
        same.update(zip(node.outputs, found, strict=True))
        changed = True
    outputs = tuple(same.get(v, v) for v in graph.outputs)
    return writer.finished(graph.inputs, outputs) if changed else graph


def _all_steps(writer: Writer, node: Node) -> list[int]:
    """The values that a loop's results are; raises Unsupported for any other node."""
    body = node.bodies.get("jaxpr")
    if node.op != "scan" or body is None:
        raise Unsupported("it is no loop over arrays")
    body = flattened(body)
    fixed, carried = int(node.params["num_consts"]), int(node.params["num_carry"])
    gathered = [_gathered(body, fixed + i, body.outputs[i]) for i in range(carried)]
    joins = {join.outputs for join, _, _ in gathered}
    batch = Batch(writer, body, int(node.params["length"]))
    steps = body.inputs[fixed + carried :]
    batch.known.update(zip(body.inputs, node.inputs, strict=True))
    batch.batched.update(steps)
    batch.run([n for n in body.nodes if n.outputs not in joins])
    results = [
        _reduced(writer, batch, node.inputs[fixed + i], op, part)
        for i, (_, op, part) in enumerate(gathered)
    ]
    return [*results, *(batch.along(v) for v in body.outputs[carried:])]


def _gathered(body: Graph, position: int, result: int) -> tuple[Node, str, int]:
    """(node, operation, part) when a step hands on `operation(carry, part)` and has no other use
    for either; raises Unsupported otherwise."""
    carry = body.inputs[position]
    users = [n for n in body.nodes if carry in n.inputs]
    if len(users) != 1 or users[0].outputs != (result,) or users[0].op not in _GATHERED:
        raise Unsupported("its steps depend on each other")
    (join,) = users
    others = [v for v in join.inputs if v != carry]
    used = any(result in n.inputs for n in body.nodes) or body.outputs.count(result) > 1
    if len(others) != 1 or used or carry in body.outputs:
        raise Unsupported("its steps depend on each other")
    return join, join.op, others[0]


def _reduced(writer: Writer, batch: Batch, start: int, op: str, part: int) -> int:
    like = writer.values[start]
    along = batch.along(part)
    total = writer.node(_GATHERED[op], [along], like, like.shape, {"axes": [0]})
    made = {value: node for node in writer.nodes for value in node.outputs}
    if op == "add" and is_zero(writer.values, made, start):
        return total
    return writer.node(op, [start, total], like, like.shape, {})
