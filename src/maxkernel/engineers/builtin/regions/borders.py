"""Other borders for the kernel of a program's main core: a consumer left out or a producer taken
in, and what that saves by the bytes that pass through HBM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.costs import itemsize
from maxkernel.engineers.builtin.cuts import without_repeats
from maxkernel.engineers.builtin.regions.find import ENDS
from maxkernel.engineers.builtin.regions.flow import Flow, members
from maxkernel.engineers.builtin.regions.plan import (
    Border,
    Choice,
    Survey,
    sets,
    strategy_of,
    survey,
)
from maxkernel.targets import Target
from maxkernel.types import Graph, Plan, TaskInfo

MOST_PRODUCERS = 3
_OWN = ("dot_general", "conv_general_dilated", "reduce_", "sort", "cumsum", "gather", "scatter")
"""How the names of operations begin that XLA does not fuse into their readers."""


@dataclass(frozen=True)
class Moved:
    """A plan with another border."""

    plan: Plan
    words: str
    saved: float
    """Seconds that it saves by its bytes; negative where it costs some."""


def moved_borders(info: TaskInfo, plan: Plan, target: Target) -> list[Moved]:
    """Plans that differ from a plan of regions by one border. Raises Unsupported."""
    info, now = without_repeats(info), Border.of(plan)
    known = survey(info, target)
    before = _chosen(known, now, plan.strategy)
    seen, found = {_extent(before)}, list[Moved]()
    for border in _others(now):
        try:
            after = _chosen(known, border, plan.strategy)
        except Unsupported:
            continue
        if _extent(after) in seen:
            continue
        seen.add(_extent(after))
        saved = (traffic(info.graph, before) - traffic(info.graph, after)) / target.hbm_bandwidth
        rest = {k: v for k, v in plan.options.items() if k not in ("ends", "producers")}
        moved = Plan(plan.family, strategy_of(after), plan.reason, rest | border.options)
        found.append(Moved(moved, _words(info.graph, before, after), saved))
    return found


def _others(now: Border) -> Iterator[Border]:
    yield from (Border(n, now.producers) for n in range(ENDS) if n != now.ends)
    yield from (Border(now.ends, n) for n in range(MOST_PRODUCERS + 1) if n != now.producers)


def _chosen(known: Survey, border: Border, strategy: str) -> list[Choice]:
    """The set of that strategy, else the first one."""
    found = sets(known, border)
    return next((choices for choices in found if strategy_of(choices) == strategy), found[0])


def _extent(choices: Sequence[Choice]) -> tuple[tuple[int, int], ...]:
    return tuple((c.region.nodes, c.region.output) for c in choices)


def _words(graph: Graph, before: Sequence[Choice], after: Sequence[Choice]) -> str:
    """What changed hands, by the names of operations."""
    was, now = (_inside(choices) for choices in (before, after))
    parts = [
        f"{verb} {', '.join(dict.fromkeys(graph.nodes[i].op for i in members(nodes)))} {place}"
        for verb, nodes, place in (
            ("take", now & ~was, "into kernels"),
            ("leave", was & ~now, "to XLA"),
        )
        if nodes
    ]
    return " and ".join(parts) or "divide the same operations among kernels in another way"


def _inside(choices: Sequence[Choice]) -> int:
    bits = 0
    for choice in choices:
        bits |= choice.region.nodes
    return bits


def traffic(graph: Graph, choices: Sequence[Choice]) -> float:
    """Bytes that a program with these kernels passes through HBM, XLA's operations fused into those
    that read them as far as they can be: each kernel, product and reduction reads its operands and
    writes its results once."""
    flow, inside = Flow(graph), _inside(choices)
    regions = [choice.region for choice in choices]
    stored = {*graph.inputs, *graph.outputs, *(r.output for r in regions)}
    stored |= {v for r in regions for v in r.inputs if not _fixed(flow, v)}
    jobs: list[tuple[tuple[int, ...], tuple[int, ...]]]
    jobs = [(tuple(r.inputs), (r.output,)) for r in regions]
    for i, node in enumerate(graph.nodes):
        if not inside >> i & 1 and node.op.startswith(_OWN) and not flow.fixed[i]:
            stored |= set(node.outputs)
            jobs.append((node.inputs, node.outputs))
    made = {v for _, outputs in jobs for v in outputs}
    for value in sorted(stored - made - set(graph.inputs)):
        if value in flow.maker:
            jobs.append((graph.nodes[flow.maker[value]].inputs, (value,)))
    total = 0.0
    for inputs, outputs in jobs:
        read = {root for value in inputs for root in _roots(flow, value, stored)}
        total += sum(_bytes(graph, v) for v in (*read, *outputs))
    return total


def _roots(flow: Flow, value: int, stored: set[int]) -> set[int]:
    """The stored values that a value follows from without passing another stored one."""
    found, todo, seen = set[int](), [value], {value}
    for at in todo:
        if at in stored or at not in flow.maker:
            found |= {at} if at in stored else set()
            continue
        fresh = [v for v in flow.graph.nodes[flow.maker[at]].inputs if v not in seen]
        seen.update(fresh)
        todo += fresh
    return found


def _fixed(flow: Flow, value: int) -> bool:
    return value in flow.maker and flow.fixed[flow.maker[value]]


def _bytes(graph: Graph, value: int) -> float:
    spec, size = graph.values[value], 1.0
    for n in spec.shape:
        size *= n
    return size * itemsize(spec.dtype)
