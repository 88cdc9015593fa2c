"""Parts of an operator graph that one kernel may compute: a core of products, and what joins it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from msgspec.structs import replace

from maxkernel.engineers.builtin.layouts import ELEMENTWISE
from maxkernel.engineers.builtin.regions.before import free_before, with_producers
from maxkernel.engineers.builtin.regions.flow import (
    LAYOUT,
    Flow,
    bits_of,
    joins_of_repeats,
    members,
)
from maxkernel.engineers.builtin.rotary import rotations
from maxkernel.types import ArraySpec, Graph, TaskInfo

Kind = Literal["attention", "convolution", "product", "pair", "rotation", "rows"]
_PRODUCTS = ("dot_general", "conv_general_dilated")
_JOINS = ELEMENTWISE | LAYOUT | {"reduce_sum", "reduce_max", "reduce_min"}
"""What a kernel may do with its product before it stores a result."""
ENDS = 6
"""Most places after a core where a region may end that are tried, the farthest first."""


@dataclass(frozen=True)
class Core:
    """Products that belong into one kernel: one, or two with a softmax between them; or what needs
    none: a rotation, or all that is made of the rows of one input or product."""

    kind: Kind
    nodes: int
    """The products and all that lies between them, as bits."""
    products: tuple[int, ...]

    def alone(self) -> list[Core]:
        """Its products one by one, where it has several."""
        several = self.products if len(self.products) > 1 else ()
        return [Core("product", 1 << p, (p,)) for p in several]

    def flops(self, graph: Graph) -> float:
        """Arithmetic of its products."""
        return sum(product_flops(graph, p) for p in self.products)


@dataclass(frozen=True)
class Region:
    """Part of a graph: `info` is it as a task of its own, on the values `inputs`."""

    core: Core
    nodes: int
    """The core and what follows it inside, as bits."""
    inputs: tuple[int, ...]
    output: int
    info: TaskInfo


def products_of(flow: Flow) -> list[int]:
    """The products of the graph that follow from an input."""
    nodes = flow.graph.nodes
    return [i for i, n in enumerate(nodes) if n.op in _PRODUCTS and not flow.fixed[i]]


def cores(flow: Flow) -> list[Core]:
    """Every product of the graph once, those of an attention together."""
    nodes = flow.graph.nodes
    products = products_of(flow)
    below = {p: flow.below(p) for p in products}
    found: list[Core] = []
    taken = set[int]()
    for first in products:
        for second in products:
            between = below[first] & flow.above[second]
            if first >= second or taken & {first, second} or not between:
                continue
            ops = [nodes[i].op for i in members(between)]
            plain = [op for op in ops if op in _PRODUCTS] == ["dot_general"] * 2
            if plain and "reduce_max" in ops and {"exp", "exp2"}.intersection(ops):
                found.append(Core("attention", between, (first, second)))
                taken |= {first, second}
    for first in products:
        for second in products:
            joint = _joint(flow, below, first, second) if first < second else 0
            if joint and not taken & {first, second}:
                found.append(Core("pair", joint, (first, second)))
                taken |= {first, second}
    for i in products:
        if i not in taken:
            kind: Kind = "product" if nodes[i].op == "dot_general" else "convolution"
            found.append(Core(kind, 1 << i, (i,)))
    return sorted(found, key=lambda core: core.products)


def _joint(flow: Flow, below: Mapping[int, int], first: int, second: int) -> int:
    """Two products of the same rows and all up to where they meet; 0 where they do not, or where
    more than elementwise operations lie between."""
    nodes = flow.graph.nodes
    both = below[first] & below[second]
    same = nodes[first].inputs[0] == nodes[second].inputs[0]
    if not same or not both or both >> second & 1:
        return 0
    meeting = next(members(both))
    inside = (below[first] | below[second]) & flow.above[meeting]
    between = [nodes[i].op for i in members(inside) if i not in (first, second)]
    return inside if ELEMENTWISE.issuperset(between) else 0


def regions(flow: Flow, core: Core, info: TaskInfo, producers: int = 0) -> Iterator[Region]:
    """Regions around a core, the largest first, with so many elementwise operations before it."""
    wide = _following(flow, core)
    products = bits_of(core.products)
    ends = [
        value
        for i in members(wide)
        if flow.above[i] & products == products
        for value in flow.graph.nodes[i].outputs
    ]
    if core.kind != "attention":
        ends = [v for v in ends if v in flow.graph.outputs or _computes(flow, v)]
    tried = 0
    joins = _shared_joins(flow, core)
    for end in reversed(ends):
        needed = wide & flow.above[flow.maker[end]]
        if tried == ENDS or not _alone(flow, needed, end):
            continue
        needed = with_producers(flow, needed, producers)
        tried += 1
        if joins:
            yield _region(flow, core, needed, end, info, joins)
        yield _region(flow, core, needed, end, info)


def _shared_joins(flow: Flow, core: Core) -> int:
    """Where the keys of an attention are joined of columns, some of them shared by its heads."""
    if core.kind != "attention":
        return 0
    return joins_of_repeats(flow, flow.graph.nodes[core.products[0]].inputs)


def _computes(flow: Flow, value: int) -> bool:
    return flow.graph.nodes[flow.maker[value]].op not in LAYOUT


def _following(flow: Flow, core: Core) -> int:
    """The core and all after it that may join: no more products, and no detour around it."""
    graph, wide = flow.graph, core.nodes
    after = 0
    for product in core.products:
        after |= flow.below(product)
    for i in members(after & ~core.nodes):
        node = graph.nodes[i]
        detour = any(flow.needs(v, after) and not wide >> flow.maker[v] & 1 for v in node.inputs)
        if node.op in _JOINS and not detour:
            wide |= 1 << i
    return wide


def _alone(flow: Flow, nodes: int, end: int) -> bool:
    """Whether `end` is the only value that leaves a set of nodes."""
    for i in members(nodes):
        for value in flow.graph.nodes[i].outputs:
            leaves = value in flow.graph.outputs
            leaves |= any(not nodes >> user & 1 for user in flow.users.get(value, ()))
            if leaves and value != end:
                return False
    return True


def _region(flow: Flow, core: Core, nodes: int, end: int, info: TaskInfo, joins: int = 0) -> Region:
    graph = flow.graph
    inside = nodes | free_before(flow, nodes, joins)
    made = {v for i in members(inside) for v in graph.nodes[i].outputs}
    read = (v for i in members(inside) for v in graph.nodes[i].inputs)
    given = [v for v in read if v not in made and (v in flow.maker or v in graph.inputs)]
    named = _named(flow, core, inside, given, info)
    inputs = tuple(named)
    return Region(core, nodes, inputs, end, _alone_as_task(graph, inside, named, end, info))


def _alone_as_task(
    graph: Graph, nodes: int, named: Mapping[int, str], end: int, info: TaskInfo
) -> TaskInfo:
    """Some nodes as a task of their own, on the values `named`."""
    specs = [ArraySpec(graph.values[v].shape, graph.values[v].dtype) for v in (*named, end)]
    part = replace(
        graph,
        inputs=tuple(named),
        outputs=(end,),
        nodes=tuple(graph.nodes[i] for i in members(nodes)),
    )
    return replace(
        info,
        input_names=tuple(named.values()),
        inputs=tuple(specs[:-1]),
        outputs=(specs[-1],),
        statics={},
        graph=part,
    )


def rotation_regions(flow: Flow, info: TaskInfo) -> list[Region]:
    """A region per rotary position embedding of the graph."""
    graph = flow.graph
    found: list[Region] = []
    for turned in rotations(graph):
        nodes = sum(1 << flow.maker[node.outputs[0]] for node in turned.nodes)
        named = {turned.x: "x", turned.cos: "cos", turned.sin: "sin"}
        part = _alone_as_task(graph, nodes, named, turned.output, info)
        core = Core("rotation", nodes, ())
        found.append(Region(core, nodes, tuple(named), turned.output, part))
    return found


def row_regions(flow: Flow, info: TaskInfo) -> Iterator[Region]:
    """A region per product or input: all that follows from it, if one result does."""
    graph = flow.graph
    products = [n.outputs[0] for n in graph.nodes if n.op in _PRODUCTS]
    for value in (*products[::-1], *graph.inputs) if len(graph.outputs) == 1 else ():
        first = bits_of(flow.users.get(value, ()))
        nodes = bits_of(i for i, above in enumerate(flow.above) if above & first)
        if nodes and _alone(flow, nodes, graph.outputs[0]):
            yield _region(flow, Core("rows", nodes, ()), nodes, graph.outputs[0], info)


def _named(
    flow: Flow, core: Core, inside: int, inputs: Sequence[int], info: TaskInfo
) -> dict[int, str]:
    """A region's inputs with names: operands of products first, by their part, so that like regions
    have like sources; then the others, by the task's own names."""
    own = dict(zip(flow.graph.inputs, info.input_names, strict=False))
    hints = ("q", "k", "v") if core.kind == "attention" else ("x", "w")
    first = bits_of(core.products[:1])
    if core.kind == "pair":
        hints = ("x", "w_1", "x", "w_2")
    operands = [v for p in core.products for v in flow.graph.nodes[p].inputs]
    operands = [v for v in operands if not flow.needs(v, first)]
    found: dict[int, str] = {}
    for hint, operand in zip(hints, operands, strict=False):
        reached = flow.above[flow.maker[operand]] & inside if operand in flow.maker else 0
        sources = {operand, *(v for i in members(reached) for v in flow.graph.nodes[i].inputs)}
        for value in inputs:
            if value in sources:
                found.setdefault(value, hint)
    for value in inputs:
        found.setdefault(value, own.get(value, "extra"))
    return found


def product_flops(graph: Graph, node: int) -> float:
    """Arithmetic operations of one product: two per element of the result and of the contraction
    (for a convolution, the elements of a filter that meet elements of the input)."""
    n = graph.nodes[node]
    result = math.prod(graph.values[n.outputs[0]].shape)
    right = graph.values[n.inputs[1]].shape
    if n.op == "dot_general":
        contracted = n.params["dimension_numbers"][0][1]
        return 2.0 * result * math.prod(right[int(i)] for i in contracted)
    outputs = int(n.params["dimension_numbers"]["rhs_spec"][0])
    spread = math.prod(n.params["lhs_dilation"])
    return 2.0 * result * math.prod(right) / right[outputs] / spread
