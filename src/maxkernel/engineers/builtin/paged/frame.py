"""Where paged attention begins and ends in a larger program."""

from __future__ import annotations

from dataclasses import dataclass, replace

from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.cuts import producers
from maxkernel.engineers.builtin.paged.pools import Gathered
from maxkernel.types import Graph, Node

_SAME = frozenset(
    "reshape squeeze expand_dims transpose convert_element_type copy broadcast_in_dim".split()
)


@dataclass(frozen=True)
class Frame:
    """Graph values: the queries where they are computed before (else None), the result of the
    attention, and leading columns of gathered rows that are taken apart."""

    queries: int | None
    result: int
    parts: tuple[Gathered, ...]


def find_frame(graph: Graph, gathers: list[Gathered]) -> Frame:
    """The frame of the one attention; raises Unsupported where there is none."""
    below = {g.value for g in gathers}
    for node in graph.nodes:
        if below.intersection(node.inputs):
            below.update(node.outputs)
    products = [n for n in graph.nodes if n.op == "dot_general" and below.intersection(n.inputs)]
    if len(products) < 2 or len(graph.outputs) != 1:
        raise Unsupported("it is not two matrix products with one result")
    outside = [v for v in products[0].inputs if v not in below]
    if len(outside) != 1:
        raise Unsupported("the first product is not one of queries and gathered pages")
    result = graph.outputs[0]
    if len(products) > 2:
        result = next(v for v in products[2].inputs if v in below)
    return Frame(_computed(graph, outside[0]), result, _parts(graph, gathers))


def _computed(graph: Graph, value: int) -> int | None:
    """The queries as XLA has to prepare them, in the order of the product; None for an input."""
    if _source(graph, value, _SAME | {"mul"}) in graph.inputs:
        return None
    return _source(graph, value, _SAME - {"transpose", "broadcast_in_dim"})


def _source(graph: Graph, value: int, through: frozenset[str]) -> int:
    """What a value is before operations of these names on one array."""
    made = producers(graph)
    while (node := made.get(value)) is not None:
        arrays = [v for v in node.inputs if graph.values[v].shape]
        if node.op not in through or len(arrays) != 1:
            break
        value = arrays[0]
    return value


def _parts(graph: Graph, gathers: list[Gathered]) -> tuple[Gathered, ...]:
    """Leading columns of the rows of gathered pages, by sequence and position."""
    made = producers(graph)
    by_value = {g.value: g for g in gathers}
    found: list[Gathered] = []
    for node in graph.nodes:
        source = _rows(graph, made, node)
        gathered = by_value.get(source) if source is not None else None
        if gathered is not None:
            columns = graph.values[node.outputs[0]].shape[-1]
            found.append(replace(gathered, value=node.outputs[0], columns=columns))
    return tuple(found)


def _rows(graph: Graph, made: dict[int, Node], node: Node) -> int | None:
    """The gathered value whose rows a slice cuts short, for rows without heads."""
    if node.op != "slice" or any(int(i) for i in node.params["start_indices"]):
        return None
    if any(int(i) != 1 for i in node.params.get("strides") or ()):
        return None
    (rows,) = node.inputs
    shape, cut = graph.values[rows].shape, graph.values[node.outputs[0]].shape
    merged = made.get(rows)
    if len(shape) != 3 or shape[:-1] != cut[:-1] or merged is None or merged.op != "reshape":
        return None
    return merged.inputs[0]
