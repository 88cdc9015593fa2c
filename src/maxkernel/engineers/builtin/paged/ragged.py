"""Recognises ragged paged attention: a buffer of query tokens of many sequences, causal, whose keys
and values lie in pages, interleaved by head.

References of this kind place tokens by whole-number code that is not followed here; roles are told
from how arrays are used. That the placement is the usual one (a sequence's tokens are the last
ones of its context) is for the judge to find.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.cuts import producers, unwrapped_index
from maxkernel.types import Graph, Node, TaskInfo


@dataclass(frozen=True)
class Ragged:
    """Positions of the inputs: queries (T, heads, width), pool (P, page, 2 groups, width), lengths
    (slots,), table (slots, pages), ends (slots + 1,), and active slots (1,) where it is given.

    `scale` multiplies the scores.
    """

    queries: int
    pool: int
    lengths: int
    table: int
    ends: int
    active: int | None
    scale: float


def match_ragged(info: TaskInfo) -> Ragged:
    """The task as ragged paged attention; raises Unsupported with the reason."""
    graph = info.graph
    pool, table = _pages(graph)
    slots = _shape(graph, table)[0]
    queries = [
        i
        for i, spec in enumerate(info.inputs)
        if spec.dtype == "bfloat16" and len(spec.shape) == 3 and i != pool
    ]
    if len(queries) != 1 or len(graph.outputs) != 1:
        raise Unsupported("it has not one buffer of query tokens")
    (q,) = queries
    record, shape = _shape(graph, pool), _shape(graph, q)
    if graph.values[graph.outputs[0]].shape != shape:
        raise Unsupported("the result is not one row per query token")
    if len(record) != 4 or record[2] % 2 or shape[2] != record[3] or shape[1] % (record[2] // 2):
        raise Unsupported("a page does not lie by position and head, keys and values in turns")
    if info.inputs[pool].dtype != "bfloat16" or record[3] % 128:
        raise Unsupported("pages of ragged attention are bfloat16, their width a multiple of 128")
    whole = {i: s.shape for i, s in enumerate(info.inputs) if s.dtype == "int32" and i != table}
    lengths = [i for i, s in whole.items() if s == (slots,)]
    ends = [i for i, s in whole.items() if s == (slots + 1,)]
    active = [i for i, s in whole.items() if s in ((1,), ())]
    if len(lengths) != 1 or len(ends) != 1 or len(active) > 1:
        raise Unsupported("it lacks one length per slot, or the ends of their tokens")
    if len(whole) != 2 + len(active) or not _takes_differences(graph, graph.inputs[ends[0]]):
        raise Unsupported("query tokens are not counted by differences of ends")
    scale = _attends(graph)
    return Ragged(q, pool, lengths[0], table, ends[0], active[0] if active else None, scale)


def _shape(graph: Graph, position: int) -> tuple[int, ...]:
    return graph.values[graph.inputs[position]].shape


def _everywhere(
    graph: Graph, known: dict[int, int]
) -> Iterator[tuple[Graph, Node, dict[int, int]]]:
    """Every node with its graph, and which of the graph's values are inputs of the whole."""
    for node in graph.nodes:
        yield graph, node, known
        for body in node.bodies.values():
            if node.op == "scan" and len(body.inputs) == len(node.inputs):
                given = zip(body.inputs, node.inputs, strict=True)
                yield from _everywhere(body, {b: known[v] for b, v in given if v in known})


def _pages(graph: Graph) -> tuple[int, int]:
    """Positions of (pool, table): pages that a row of the table names are gathered once."""
    known = {value: i for i, value in enumerate(graph.inputs)}
    found: list[tuple[int, int]] = []
    for inner, node, inputs in _everywhere(graph, known):
        if node.op != "gather" or node.inputs[0] not in inputs:
            continue
        pool, shape = inputs[node.inputs[0]], inner.values[node.inputs[0]].shape
        sizes = [int(n) for n in node.params["slice_sizes"]]
        table = _row_of(inner, node.inputs[1], inputs)
        if len(shape) == 4 and sizes == [1, *shape[1:]] and table is not None:
            found.append((pool, table))
    if len(set(found)) != 1:
        raise Unsupported("it does not gather pages that a row of a table names")
    return found[0]


def _row_of(graph: Graph, value: int, inputs: dict[int, int]) -> int | None:
    """The input of two dimensions that an index is a row of."""
    made = producers(graph)
    value = unwrapped_index(graph, made, value)
    node = made.get(value)
    if node is None or node.op not in ("dynamic_slice", "gather"):
        return None
    table = node.inputs[0]
    rows = len(graph.values[table].shape) == 2
    return inputs[table] if table in inputs and rows else None


def _takes_differences(graph: Graph, ends: int) -> bool:
    """Whether the graph subtracts each end from the next."""
    slices = {
        node.outputs[0]: int(node.params["start_indices"][0])
        for node in graph.nodes
        if node.op == "slice" and node.inputs == (ends,)
    }
    return any(
        node.op == "sub" and [slices.get(v) for v in node.inputs] == [1, 0] for node in graph.nodes
    )


def _attends(graph: Graph) -> float:
    """The scale of the scores of the one attention in a loop; raises Unsupported."""
    loops = [n for n in graph.nodes if n.op == "scan" and int(n.params["num_carry"]) == 0]
    bodies = [body for n in loops for body in n.bodies.values()]
    attending = [b for b in bodies if sum(n.op == "dot_general" for n in b.nodes) == 2]
    if len(attending) != 1:
        raise Unsupported("it is not one loop over blocks of queries with two products")
    (body,) = attending
    ops = {n.op for n in body.nodes}
    if not {"exp", "reduce_max", "reduce_sum", "div", "select_n"} <= ops:
        raise Unsupported("what stands between the two products is no masked softmax")
    if "tanh" in ops or not _interleaved(body):
        raise Unsupported("scores are modified, or keys and values do not lie in turns")
    first = next(n for n in body.nodes if n.op == "dot_general").outputs[0]
    same, scales = {first}, list[float]()
    for node in body.nodes:
        if node.op in ("transpose", "reshape", "convert_element_type") and node.inputs[0] in same:
            same.add(node.outputs[0])
        if node.op == "mul" and same.intersection(node.inputs):
            values = [body.values[v].literal for v in node.inputs]
            scales += [float(v) for v in values if v is not None]
    if len(scales) > 1:
        raise Unsupported("the scores are scaled more than once")
    return scales[0] if scales else 1.0


def _interleaved(graph: Graph) -> bool:
    """Whether even and odd heads of the gathered rows are taken apart."""
    taken = [
        tuple(int(i) for i in node.params["start_indices"])
        for node in graph.nodes
        if node.op == "slice" and 2 in [int(i) for i in node.params.get("strides") or ()]
    ]
    return sorted(sum(start) for start in taken) == [0, 1]
