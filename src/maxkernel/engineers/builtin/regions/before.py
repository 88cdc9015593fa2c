"""What may join a region before its core."""

from __future__ import annotations

from maxkernel.engineers.builtin.costs import itemsize
from maxkernel.engineers.builtin.layouts import ELEMENTWISE
from maxkernel.engineers.builtin.regions.flow import LAYOUT, Flow, bits_of
from maxkernel.types import Graph


def free_before(flow: Flow, nodes: int, joins: int) -> int:
    """What comes before a set of nodes and costs nothing inside: layouts, conversions to wider
    types, some `joins`, and all that follows from no input."""
    graph, found = flow.graph, 0
    for i in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[i]
        inside = nodes | found
        read = any(inside >> user & 1 for v in node.outputs for user in flow.users.get(v, ()))
        if inside >> i & 1 or not read:
            continue
        if flow.fixed[i] or node.op in LAYOUT or _widens(graph, i) or joins >> i & 1:
            found |= 1 << i
    return found


def with_producers(flow: Flow, nodes: int, count: int) -> int:
    """A set of nodes and the `count` elementwise ones nearest before it whose results nobody else
    reads."""
    graph = flow.graph
    for i in range(len(graph.nodes) - 1, -1, -1):
        inside = nodes | free_before(flow, nodes, 0)
        users = bits_of(user for v in graph.nodes[i].outputs for user in flow.users.get(v, ()))
        own = users and not users & ~inside and not inside >> i & 1
        leaves = any(v in graph.outputs for v in graph.nodes[i].outputs)
        if count and own and not leaves and graph.nodes[i].op in ELEMENTWISE:
            nodes |= 1 << i
            count -= 1
    return nodes


def _widens(graph: Graph, i: int) -> bool:
    node = graph.nodes[i]
    if node.op != "convert_element_type":
        return False
    sizes = [itemsize(graph.values[v].dtype) for v in (node.inputs[0], node.outputs[0])]
    return sizes[0] <= sizes[1]
