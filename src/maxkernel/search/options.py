"""What a search could do next, as a policy sees it: values and states, no code."""

from __future__ import annotations

import math

import msgspec

from maxkernel.search.constants import Constants
from maxkernel.search.graph import DesignGraph, Node
from maxkernel.search.job import JobKind
from maxkernel.types import Tunable

MAX_REPAIRS = 3
"""Repairs that an intent is worth before it is given up."""

INCUBATION = 8
"""Jobs without a gain, on a design and on what came of it, after which it loses its credit.
First versions are 4 to 12 times slower than the best that later comes of them."""

RANK_GAIN = 0.08
"""Expected ln gain of a first look at a design's constants."""

REPAIR_DISCOUNT = 0.1
"""Expected ln loss per repair that an intent has needed so far."""

UNKNOWN_MERIT = -0.7
"""Merit that is expected of a plan without an estimate: half of XLA's speed."""


class Option(msgspec.Struct, frozen=True):
    """One thing that could be done. Merits are ln(XLA's time / time): 0 is as fast as XLA."""

    kind: JobKind
    node: int
    merit: float
    """Of the design it starts from; for plans without code, what is expected of them."""
    gain: float
    """Expected improvement on it."""
    chain: int
    """The first intent that it descends from."""
    parent: int = 0
    """For `implement`: the design that the move starts from; 0 for a plan of its own."""
    depth: int = 0
    jobs: int = 0
    """Jobs spent so far on its node (for `implement`: on the parent) and what came of it."""
    siblings: int = 0
    """For `implement`: children of the same parent that are written or being written."""
    niche: tuple[str, str] = ("", "")
    """Bottleneck and strategy family."""
    pinned: bool = False
    tunables: dict[str, Tunable] = {}

    @property
    def worth(self) -> float:
        """Merit that is expected afterwards."""
        return self.merit + self.gain


class Scale(msgspec.Struct, frozen=True):
    """What merits are measured against."""

    yardstick: float
    """Seconds of XLA's program."""

    def merit(self, seconds: float) -> float:
        """ln(XLA's time / this one)."""
        return math.log(self.yardstick / seconds)


def options_of(
    graph: DesignGraph, node: Node, constants: Constants | None, asked: bool, scale: Scale
) -> list[Option]:
    """What could be done with one node. `asked`: its moves are known already."""
    if node.cut or node.dead:
        return []
    pinned = any(n.pinned for n in graph.lineage(node.id))
    if not node.written:
        return [_implement(graph, node, scale, pinned)] if not node.active else []
    if not has_credit(graph, node) and not pinned:
        return []
    if node.best is None:
        return _repairs(graph, node, scale, pinned)
    found: list[Option] = []
    base = _option(graph, node, "tune", scale.merit(node.seconds or 1.0), 0.0, pinned)
    if constants is not None:
        pick = constants.next(node)
        if pick is not None:
            assignment, gain = pick
            found.append(msgspec.structs.replace(base, gain=gain, tunables=assignment))
    elif not node.active:
        found.append(msgspec.structs.replace(base, kind="rank", gain=RANK_GAIN))
    if not asked:
        found.append(msgspec.structs.replace(base, kind="moves", gain=RANK_GAIN))
    return found


def has_credit(graph: DesignGraph, node: Node) -> bool:
    """True while a design is worth more work: it is the best one, or it gained lately."""
    best = graph.best
    leads = best is not None and any(n is node for n in graph.lineage(best.id))
    return leads or node.quiet < INCUBATION


def expected_merit(graph: DesignGraph, node: Node, scale: Scale) -> float:
    """Merit of a design, or what its intent promises while it has no accepted version."""
    if node.seconds is not None:
        return scale.merit(node.seconds)
    intent = graph[node.root].intent
    parents = [graph[p] for p in intent.parents if p in graph.nodes]
    known = [p.seconds for p in parents if p.seconds is not None]
    if known:
        return scale.merit(min(known)) + intent.gain
    promised = intent.plan.expected_seconds
    return scale.merit(promised) if promised else UNKNOWN_MERIT


def _repairs(graph: DesignGraph, node: Node, scale: Scale, pinned: bool) -> list[Option]:
    failure = node.failure
    if node.active or node.children or failure is None or failure.kind == "environment":
        return []
    used = len(graph.serving(node.root)) - 1
    if used >= MAX_REPAIRS:
        return []
    merit = expected_merit(graph, node, scale) - REPAIR_DISCOUNT * (1 + used)
    return [_option(graph, node, "repair", merit, 0.0, pinned)]


def _implement(graph: DesignGraph, node: Node, scale: Scale, pinned: bool) -> Option:
    parents = [graph[p] for p in node.intent.parents if p in graph.nodes]
    siblings = sum(graph[c].written or graph[c].active > 0 for p in parents for c in p.children)
    merit, gain = expected_merit(graph, node, scale), 0.0
    if parents:
        merit, gain = merit - node.intent.gain, node.intent.gain
    option = _option(graph, node, "implement", merit, gain, pinned)
    return msgspec.structs.replace(
        option,
        parent=parents[0].id if parents else 0,
        jobs=parents[0].jobs if parents else 0,
        siblings=siblings,
    )


def _option(
    graph: DesignGraph, node: Node, kind: JobKind, merit: float, gain: float, pinned: bool
) -> Option:
    lineage = graph.lineage(node.id)
    limit = next((n.limit for n in lineage if n.limit), "")
    return Option(
        kind=kind,
        node=node.id,
        merit=merit,
        gain=gain,
        chain=graph.chain(node.id),
        depth=node.depth,
        jobs=node.jobs,
        niche=(limit, f"{node.intent.plan.family}: {node.intent.plan.strategy}"),
        pinned=pinned,
    )
