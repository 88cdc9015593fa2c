"""Recognises the gathering of pages from a pool by a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from maxkernel.engineers.builtin.cuts import producers, unwrapped_index
from maxkernel.types import Graph, Node


@dataclass(frozen=True)
class Gathered:
    """Pages as a program gathers them.

    `value`: the graph value of the gathered array; `pool`, `table`: positions of the two inputs;
    `axis`: the pool's dimension that counts pages; `offsets`: the gathered array's dimensions
    that are a page's own, in the pool's order. `columns`: the value is not the gathered array but
    the first so many columns of its rows, by sequence and position.
    """

    value: int
    pool: int
    table: int
    axis: int
    offsets: tuple[int, ...]
    columns: int | None = None

    def index_dims(self, rank: int) -> tuple[int, ...]:
        """The gathered array's dimensions that come from the table."""
        return tuple(i for i in range(rank) if i not in self.offsets)


def page_gathers(graph: Graph) -> list[Gathered]:
    """Every gather of whole slices of an input by a table of two dimensions that is an input."""
    made = producers(graph)
    found = [_gathered(graph, made, node) for node in graph.nodes if node.op == "gather"]
    return [g for g in found if g is not None]


def _gathered(graph: Graph, made: dict[int, Node], node: Node) -> Gathered | None:
    pool, indices = node.inputs
    numbers: dict[str, Any] = node.params["dimension_numbers"]
    axes = [int(a) for a in numbers["start_index_map"]]
    table = unwrapped_index(graph, made, indices)
    if pool not in graph.inputs or table not in graph.inputs or len(axes) != 1:
        return None
    axis, shape = axes[0], graph.values[pool].shape
    whole = tuple(1 if i == axis else n for i, n in enumerate(shape))
    sizes = tuple(int(n) for n in node.params["slice_sizes"])
    collapsed = [int(a) for a in numbers["collapsed_slice_dims"]]
    if sizes != whole or collapsed != axes or numbers["operand_batching_dims"]:
        return None
    if len(graph.values[table].shape) != 2:
        return None
    offsets = tuple(int(i) for i in numbers["offset_dims"])
    inputs = graph.inputs
    return Gathered(node.outputs[0], inputs.index(pool), inputs.index(table), axis, offsets)
