"""What a search could do next, as a policy sees it: values and states, no code."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import msgspec

from maxkernel.judge import Prepared
from maxkernel.search.constants import CURIOSITY, Constants
from maxkernel.search.graph import GAIN, DesignGraph, Node
from maxkernel.search.job import JobKind
from maxkernel.types import Tunable

MAX_REPAIRS = 3
"""Repairs that an intent is worth before it is given up."""

INCUBATION = 8
"""Jobs for which a plan keeps the value that it promised, whatever its first code is worth, and
jobs without a gain after which a design is dropped. First TPU versions of winners were 4 to 12
times slower than what later came of them (published traces of Autocomp)."""

MOVE_INCUBATION = 3
"""Jobs for which a move keeps the value that it promised."""

FADE = 0.03
"""Merit that each of those jobs takes off the promise."""

RANK_GAIN = CURIOSITY
"""Expected ln gain of a first look at a design's constants: that of the trial which it opens."""

MOVE_PRIOR = 1.0
"""Weight of a move's expected gain beside what it gained on other designs of this search, in
observations."""

REPAIR_DISCOUNT = 0.1
"""Expected ln loss per repair that an intent has needed so far."""


class Option(msgspec.Struct, frozen=True):
    """One thing that could be done. Merits are ln(XLA's time / time): 0 is as fast as XLA."""

    kind: JobKind
    node: int
    merit: float
    """Of the design it starts from; minus infinity where none is accepted."""
    gain: float
    """Expected improvement on it."""
    chain: int
    """The first intent that it descends from."""
    promise: float | None = None
    """What its intent still promises, whatever its code is worth so far; None: nothing more.
    Infinite where nobody has an estimate."""
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

    def base(self, best: float) -> float:
        """Value of what it starts from: its merit, or its promise where that is higher. Nothing
        promises more than the best merit so far (0 before there is one)."""
        if self.promise is None:
            return self.merit
        top = best if math.isfinite(best) else 0.0
        return max(self.merit, min(top, self.promise) - FADE * self.jobs)

    def worth(self, best: float) -> float:
        """Value that is expected afterwards."""
        return self.base(best) + self.gain


class Scale(msgspec.Struct, frozen=True):
    """What merits are measured against."""

    yardstick: float
    """Seconds of XLA's program; of the roofline bound where there is no such time."""
    compares: bool = True
    """The yardstick is a time of XLA's program, so that ratios to it are speedups."""

    def merit(self, seconds: float) -> float:
        """ln(XLA's time / this one)."""
        return math.log(self.yardstick / seconds)

    def speedup(self, seconds: float | None) -> float | None:
        """XLA's time / this one; None without two times."""
        return self.yardstick / seconds if self.compares and seconds else None

    def seconds(self, merit: float) -> float:
        """The time that has this merit."""
        return self.yardstick * math.exp(-merit)


def scale_of(prepared: Prepared) -> Scale:
    """The scale of a task."""
    return Scale(prepared.baseline.seconds, prepared.baseline.provenance != "bound")


@dataclass
class Shared:
    """What children that wait share; it holds for as long as the graph does not change."""

    bare: dict[tuple[int, bool], Option] = field(default_factory=dict[tuple[int, bool], Option])
    """Bare options by node, and whether it is pinned."""
    siblings: dict[tuple[int, ...], int] = field(default_factory=dict[tuple[int, ...], int])
    """Children that are written or being written, by parents."""


def options_of(
    graph: DesignGraph,
    node: Node,
    constants: Constants | None,
    asked: bool,
    scale: Scale,
    shared: Shared | None = None,
) -> list[Option]:
    """What could be done with one node. `asked`: its moves are known already. `shared` is
    filled."""
    if node.cut or node.dead:
        return []
    shared = Shared() if shared is None else shared
    pinned = graph.pins > 0 and any(n.pinned for n in graph.lineage(node.id))
    if not node.written:
        return [_implement(graph, node, scale, pinned, shared)] if not node.active else []
    if not has_credit(graph, node) and not pinned:
        return []
    base = _option(graph, node, scale, pinned, shared)
    if node.best is None:
        return _repairs(graph, node, base)
    found: list[Option] = []
    if constants is not None:
        pick = constants.next(node, _kin(graph, node), _ground(graph, node))
        if pick is not None:
            assignment, gain = pick
            found.append(msgspec.structs.replace(base, gain=gain, tunables=assignment))
    elif not node.active:
        found.append(msgspec.structs.replace(base, kind="rank", gain=RANK_GAIN))
    if not asked:
        found.append(msgspec.structs.replace(base, kind="moves", gain=RANK_GAIN))
    return found


def has_credit(graph: DesignGraph, node: Node) -> bool:
    """True while a design is worth more work: the best one came of it, or it gained lately."""
    best = graph.best
    leads = best is not None and any(n is node for n in graph.lineage(best.id))
    return leads or node.quiet < INCUBATION


def promise_of(graph: DesignGraph, node: Node, scale: Scale) -> float | None:
    """The merit that a node's intent promises; None once its incubation is over."""
    intent = graph[node.root].intent
    parents = [graph[p] for p in intent.parents if p in graph.nodes]
    if graph[node.root].jobs >= _incubation(graph, node):
        return None
    if graph[node.root].rewritten and node.seconds is not None:
        return None
    if parents:
        bases = [_merit(p, scale) for p in parents]
        promises = [b for p in parents if (b := promise_of(graph, p, scale)) is not None]
        return max([*bases, *promises]) + intent.gain
    promised = intent.plan.expected_seconds
    return scale.merit(promised) if promised else math.inf


def follows(graph: DesignGraph, node: Node) -> bool:
    """True while options of a node, or of what is below it, depend on more of its parents than
    their trials: on what they promise, on the jobs that they had, on what they wait for."""
    if not node.written or node.rewritten or not node.limit:
        return True
    return graph.nodes[node.root].jobs <= _incubation(graph, node)


def _incubation(graph: DesignGraph, node: Node) -> int:
    return MOVE_INCUBATION if graph.nodes[node.root].intent.parents else INCUBATION


def gain_of(graph: DesignGraph, node: Node) -> float:
    """What its move is expected to gain, as far as this search knows."""
    seen = graph.moved.get(node.intent.move, [])
    return (MOVE_PRIOR * node.intent.gain + sum(seen)) / (MOVE_PRIOR + len(seen))


def _ground(graph: DesignGraph, node: Node) -> tuple[Node, ...]:
    """The designs whose trials say how well a design's ground is known: a rewrite that is no
    faster than what it was made of is the same ground."""
    parents = [graph[p] for p in node.intent.parents if p in graph.nodes]
    if not (node.rewritten and parents and node.peak and parents[0].seconds):
        return (node,)
    faster = node.peak < parents[0].seconds * (1 - GAIN)
    return (node,) if faster else (node, parents[0])


def _kin(graph: DesignGraph, node: Node) -> list[Node]:
    """Where it came from and what came of it: designs with like constants."""
    near = [*node.intent.parents, *node.children]
    return [graph[id] for id in near if id in graph.nodes and graph[id].trials]


def _repairs(graph: DesignGraph, node: Node, base: Option) -> list[Option]:
    failure = node.failure
    if node.active or node.children or failure is None or failure.kind == "environment":
        return []
    used = len(graph.serving(node.root)) - 1
    if used >= MAX_REPAIRS:
        return []
    return [msgspec.structs.replace(base, kind="repair", gain=-REPAIR_DISCOUNT * (1 + used))]


def _implement(
    graph: DesignGraph, node: Node, scale: Scale, pinned: bool, shared: Shared
) -> Option:
    parents = [graph[p] for p in node.intent.parents if p in graph.nodes]
    base = _option(graph, parents[0] if parents else node, scale, pinned, shared)
    siblings = shared.siblings.get(node.intent.parents)
    if siblings is None:
        nodes = [graph.nodes[c] for p in parents for c in p.children]
        siblings = sum(n.written or n.active > 0 for n in nodes)
        shared.siblings[node.intent.parents] = siblings
    return msgspec.structs.replace(
        base,
        kind="implement",
        node=node.id,
        gain=gain_of(graph, node),
        parent=parents[0].id if parents else 0,
        siblings=siblings,
    )


def _option(graph: DesignGraph, node: Node, scale: Scale, pinned: bool, shared: Shared) -> Option:
    known = shared.bare.get((node.id, pinned))
    if known is None:
        known = shared.bare[node.id, pinned] = _bare(graph, node, scale, pinned)
    return known


def _bare(graph: DesignGraph, node: Node, scale: Scale, pinned: bool) -> Option:
    lineage = graph.lineage(node.id)
    limit = next((n.limit for n in lineage if n.limit), "")
    return Option(
        kind="tune",
        node=node.id,
        merit=_merit(node, scale),
        gain=0.0,
        chain=graph.chain(node.id),
        promise=promise_of(graph, node, scale),
        depth=node.depth,
        jobs=max(n.jobs for n in _ground(graph, node)),
        niche=(limit, f"{node.intent.plan.family}: {node.intent.plan.strategy}"),
        pinned=pinned,
    )


def _merit(node: Node, scale: Scale) -> float:
    return scale.merit(node.seconds) if node.seconds is not None else -math.inf
