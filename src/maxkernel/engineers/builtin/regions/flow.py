"""What depends on what in an operator graph: sets of nodes as bits of whole numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from maxkernel.types import Graph

LAYOUT = frozenset(
    "transpose reshape broadcast_in_dim squeeze expand_dims stop_gradient copy".split()
)
"""Operations that compute nothing: whoever reads their result can read their operand instead."""


class Flow:
    """Ancestors and users of every node; nodes are indices into `graph.nodes`."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.maker = {v: i for i, node in enumerate(graph.nodes) for v in node.outputs}
        self.above: list[int] = []
        """Bits of the nodes that each node needs, itself included."""
        self.fixed: list[bool] = []
        """Whether a node follows from no input: an index, a mask, a table of angles."""
        self.users: dict[int, list[int]] = {}
        """The nodes that read each value."""
        for i, node in enumerate(graph.nodes):
            makers = [self.maker[v] for v in node.inputs if v in self.maker]
            bits = 1 << i
            for maker in makers:
                bits |= self.above[maker]
            self.above.append(bits)
            open_ = any(self.is_given(v) for v in node.inputs)
            self.fixed.append(not open_ and all(self.fixed[m] for m in makers))
            for value in set(node.inputs):
                self.users.setdefault(value, []).append(i)

    def is_given(self, value: int) -> bool:
        """Whether a value is an input of the graph, or an array constant."""
        return value in self.graph.inputs or value in self.graph.constants

    def below(self, node: int) -> int:
        """Bits of the nodes that need `node`, itself included."""
        return sum(1 << i for i, bits in enumerate(self.above) if bits >> node & 1)

    def needs(self, value: int, nodes: int) -> bool:
        """Whether a value follows from one of `nodes`."""
        return value in self.maker and bool(self.above[self.maker[value]] & nodes)


def joins_of_repeats(flow: Flow, values: Iterable[int]) -> int:
    """The nodes that join arrays of which one is repeated, before `values` but for layouts: as
    bits."""
    nodes, found = flow.graph.nodes, 0
    todo = list(values)
    for value in todo:
        maker = flow.maker.get(value)
        if maker is None:
            continue
        if nodes[maker].op == "concatenate":
            repeated = any(_is_repeated(flow, v) for v in nodes[maker].inputs)
            found |= repeated << maker
        elif nodes[maker].op in LAYOUT:
            todo += nodes[maker].inputs
    return found


def _is_repeated(flow: Flow, value: int) -> bool:
    """Whether a broadcast made more elements of fewer."""
    values, maker = flow.graph.values, flow.maker.get(value)
    node = None if maker is None else flow.graph.nodes[maker]
    if node is None or node.op != "broadcast_in_dim":
        return False
    return math.prod(values[value].shape) > math.prod(values[node.inputs[0]].shape)


def members(bits: int) -> Iterator[int]:
    """Nodes of a set, in order."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


def bits_of(nodes: Iterable[int]) -> int:
    """A set of nodes as bits."""
    found = 0
    for node in nodes:
        found |= 1 << node
    return found
