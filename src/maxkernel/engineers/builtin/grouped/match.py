"""Recognises grouped products and what can be computed on their results before they are stored."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.cuts import producers
from maxkernel.engineers.builtin.grouped.apart import every_other, with_columns_apart
from maxkernel.engineers.builtin.grouped.coded import Coded, read_codes
from maxkernel.engineers.builtin.grouped.epilogue import Epilogue, read_epilogue
from maxkernel.engineers.builtin.layouts import ELEMENTWISE, PASS_THROUGH
from maxkernel.types import Graph, Node, TaskInfo

_POINTWISE = ELEMENTWISE | PASS_THROUGH


@dataclass(frozen=True)
class Stage:
    """One kernel: products of the same rows with one array of weights each, and what is made of
    them element by element.

    All are graph values: `rows` (M, K), `weights` (G, K, N) each, `sizes` (G,), `result` (M, N).
    `coded` says of each array of weights how it is decoded, where a kernel does that. `apart`: the
    one array of weights is (G, K, 2 N), for two products with every other of its columns.
    `whole`: something reads rows of the result that belong to no group.
    """

    rows: int
    weights: tuple[int, ...]
    sizes: int
    result: int
    epilogue: Epilogue
    coded: tuple[Coded | None, ...] = ()
    apart: bool = False
    whole: bool = True


def read(info: TaskInfo) -> tuple[TaskInfo, list[Stage]]:
    """The grouped products of a program in order, and the program as they are stages of it;
    raises Unsupported where there is none."""
    changed = with_columns_apart(info)
    if changed is not info:
        stages = match(changed)
        made = producers(changed.graph)
        weights = [made[w] for s in stages for w in s.weights if w in made]
        if all(every_other(changed.graph, node) is None for node in weights):
            return changed, stages
    return info, match(info)


def match(info: TaskInfo) -> list[Stage]:
    """The grouped products of a program in order; raises Unsupported where there is none."""
    graph = info.graph
    together: dict[Any, list[Node]] = defaultdict(list)
    for node in graph.nodes:
        if node.op.startswith("ragged_dot"):
            _check(graph, node)
            rows, weights, sizes = node.inputs
            together[rows, sizes, graph.values[weights].shape].append(node)
    if not together:
        raise Unsupported("it holds no grouped matrix product")
    stages: list[Stage] = []
    for nodes in together.values():
        found = _stage(info, nodes)
        stages += [found] if found else [s for n in nodes if (s := _stage(info, [n]))]
    stages = [_known(info, stage) for stage in stages]
    made = producers(graph)
    order = {id(node): i for i, node in enumerate(graph.nodes)}
    return sorted(stages, key=lambda s: order[id(made[s.result])])


def _known(info: TaskInfo, stage: Stage) -> Stage:
    """A stage with what follows from its weights and from what reads its result."""
    graph, made = info.graph, producers(info.graph)
    nodes = [made[w] for w in stage.weights if w in made]
    starts = [every_other(graph, node) for node in nodes]
    if sorted(starts, key=str) == [0, 1] and nodes[0].inputs == nodes[1].inputs:
        e, weights = stage.epilogue, nodes[0].inputs
        products = e.products if starts[0] == 0 else e.products[::-1]
        stage = replace(stage, weights=weights, apart=True, epilogue=replace(e, products=products))
    whole = stage.result in graph.outputs or any(
        stage.result in node.inputs and not _only_groups(node, stage) for node in graph.nodes
    )
    return replace(stage, coded=_coded(info, stage.weights), whole=whole)


def _only_groups(node: Node, stage: Stage) -> bool:
    """Whether a node reads a result as the rows of the same groups."""
    others = node.inputs[1:]
    same = node.op.startswith("ragged_dot") and node.inputs[2] == stage.sizes
    return same and node.inputs[0] == stage.result and stage.result not in others


def _coded(info: TaskInfo, weights: tuple[int, ...]) -> tuple[Coded | None, ...]:
    """All of a stage's weights as codes; none of them where they meet its rows in other orders."""
    try:
        found = [read_codes(info, w) for w in weights]
    except Unsupported:
        return (None,) * len(weights)
    orders = {(len(coded.parts), coded.run) for coded in found}
    return tuple(found) if len(orders) == 1 else (None,) * len(weights)


def _check(graph: Graph, node: Node) -> None:
    numbers: dict[str, Any] = node.params["ragged_dot_dimension_numbers"]
    (contract, batch) = numbers["dot_dimension_numbers"]
    plain = (
        [list(c) for c in contract] == [[1], [1]]
        and not any(list(b) for b in batch)
        and list(numbers["lhs_ragged_dimensions"]) == [0]
        and list(numbers["rhs_group_dimensions"]) == [0]
        and node.params.get("group_offset") is None
    )
    if not plain or len(node.inputs) != 3:
        raise Unsupported("a grouped product of other dimensions than (M, K) by (G, K, N)")
    dtypes = {graph.values[v].dtype for v in node.inputs[:2]}
    if len(dtypes) != 1 or not dtypes <= {"bfloat16", "float32"}:
        raise Unsupported(f"a grouped product of {' and '.join(sorted(dtypes))}")


def _stage(info: TaskInfo, nodes: list[Node]) -> Stage | None:
    """One stage for products of the same rows; None where their results do not meet."""
    graph = info.graph
    products = [node.outputs[0] for node in nodes]
    result = _grown(graph, products)
    if result is None and len(products) > 1:
        return None
    rows, _, sizes = nodes[0].inputs
    weights = tuple(node.inputs[1] for node in nodes)
    if result is not None:
        try:
            return Stage(rows, weights, sizes, result, read_epilogue(info, products, sizes, result))
        except Unsupported:
            if len(products) > 1:
                return None
    (product,) = products
    plain = read_epilogue(info, products, sizes, product)
    return Stage(rows, weights, sizes, product, plain)


def _grown(graph: Graph, products: list[int]) -> int | None:
    """The last value that follows from the products element by element, where it is the only one
    that anything else reads."""
    shape = graph.values[products[0]].shape
    below = set(products)
    for node in graph.nodes:
        if below.intersection(node.inputs) or node.op.startswith("ragged_dot"):
            below.update(node.outputs)
    inside = set(products)
    for node in graph.nodes:
        mine = inside.intersection(node.inputs)
        foreign = [v for v in node.inputs if v in below and v not in inside]
        fits = node.op in _POINTWISE and graph.values[node.outputs[0]].shape == shape
        if mine and fits and not foreign:
            inside.update(node.outputs)
    edge = {v for v in graph.outputs if v in inside}
    for node in graph.nodes:
        if not inside.intersection(node.outputs):
            edge.update(inside.intersection(node.inputs))
    return edge.pop() if len(edge) == 1 else None
