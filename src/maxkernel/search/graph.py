"""The design graph: designs, the moves between them, and where each one stands.

It is read from the run file that every mode writes, so a run of any mode is a graph. A driver
keeps one in step with its run file; it holds no source that the run file does not hold.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from maxkernel.types import Design, Evaluation, Failure, Intent, Tunable

State = Literal["planned", "writing", "judging", "accepted", "refused", "cut"]

REPAIR = "repair"
"""A design whose move starts with this word mends another one and serves the same intent."""
PORT = "port"
"""A design whose move starts with this word was made for another target in an earlier run."""
GAIN = 0.005
"""Smallest relative fall of the best time that counts as progress."""

MISFIT = "does not fit"
"""Fate of a program that no VMEM holds, by the analytic model."""
UNCAPTURED = "not captured"
"""How the fate of constants begins with which a kernel cannot be captured."""
TWIN = "same as"
"""How the fate of a program begins that was judged before."""

LEADERS = 32
"""Accepted designs that are kept in order of time."""


class Trial(msgspec.Struct, frozen=True):
    """One assignment of a design's constants, and its fate."""

    candidate: str
    """Digest of source and constants."""
    tunables: dict[str, Tunable]
    seconds: float | None
    """Time when accepted."""
    fate: str
    """`accepted`, the kind of the failure, `same as N` or `does not fit`."""
    artifact: str = ""

    @property
    def unjudged(self) -> bool:
        """Nobody judged it: its fate was known before."""
        return self.seconds is None and self.fate.startswith((MISFIT, UNCAPTURED, TWIN))


@dataclass
class Node:
    """One design, or the intent to write one."""

    id: int
    intent: Intent
    root: int
    """Id of the intent that this design serves: its own, or that of the design it repairs."""
    depth: int = 0
    chain: int = 0
    """The first intent that it descends from, by first parents."""
    rewritten: bool = False
    """Its source came with the move, so what it is worth shows at once."""
    written: bool = False
    """The run file holds its source."""
    trials: list[Trial] = field(default_factory=list[Trial])
    best: Trial | None = None
    failure: Failure | None = None
    """Why the last refused trial was refused."""
    dead: str = ""
    """Why nothing will come of it: nobody could write it, or it is the same program as another."""
    limit: str = ""
    """What the best version waits for (`types.search.Limit`)."""
    active: int = 0
    """Jobs at work on it."""
    children: list[int] = field(default_factory=list[int])
    jobs: int = 0
    """Jobs that were spent on it and on what came of it."""
    quiet: int = 0
    """Those of them since the last gain of it or of what came of it."""
    peak: float | None = None
    """Best seconds of it and of what came of it."""
    cut: bool = False
    pinned: bool = False
    hints: list[str] = field(default_factory=list[str])

    @property
    def state(self) -> State:
        """Where it stands; `refused` is told apart by `kind`."""
        if self.cut:
            return "cut"
        if self.best is not None:
            return "accepted"
        if self.dead or self.failure is not None:
            return "refused"
        if not self.written:
            return "writing" if self.active else "planned"
        return "judging"

    @property
    def kind(self) -> str:
        """The kind of the failure of a refused design."""
        if self.state != "refused":
            return ""
        return self.failure.kind if self.failure is not None else self.dead

    @property
    def seconds(self) -> float | None:
        """Best accepted time."""
        return self.best.seconds if self.best is not None else None

    @property
    def is_repair(self) -> bool:
        """It mends another design."""
        return self.root != self.id


class DesignGraph:
    """Nodes by id, in the order in which they were meant. Not thread-safe."""

    def __init__(self) -> None:
        self.nodes: dict[int, Node] = {}
        self.best: Node | None = None
        self.record: float | None = None
        """Best accepted seconds: those of `best`."""
        self.evaluations = 0
        self.gained_at = 0
        """Evaluations when the best time last fell by more than GAIN."""
        self.leaders: list[tuple[float, int]] = []
        """(seconds, id) of the best accepted designs, LEADERS at most, the fastest first."""
        self.pins = 0
        """Words that pinned a design."""
        self.moved: dict[str, list[float]] = {}
        """By move: ln(time before / time after) of each design that was made by it so far."""
        self._owners: dict[str, int] = {}
        self._lines: dict[int, tuple[Node, ...]] = {}

    def __getitem__(self, id: int) -> Node:
        return self.nodes[id]

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes.values())

    def __len__(self) -> int:
        return len(self.nodes)

    def add_intent(self, intent: Intent) -> Node:
        """A node that is planned; the node that is there already otherwise."""
        node = self.nodes.get(intent.id)
        if node is not None:
            return node
        parents = [self.nodes[p] for p in intent.parents if p in self.nodes]
        repairs = bool(parents) and intent.move.startswith(REPAIR)
        node = Node(
            id=intent.id,
            intent=msgspec.structs.replace(intent, source=""),
            root=parents[0].root if repairs else intent.id,
            rewritten=bool(intent.source),
        )
        self.nodes[intent.id] = node
        self._place(node)
        return node

    def move_below(self, id: int, intent: Intent) -> None:
        """Gives a planned node other parents."""
        node = self.nodes[id]
        for parent in node.intent.parents:
            self.nodes[parent].children.remove(id)
        node.intent = msgspec.structs.replace(intent, source="")
        self._place(node)

    def add_design(self, design: Design) -> Node:
        """The node of a design that is written."""
        node = self.add_intent(Intent(design.id, design.plan, design.move, design.parents))
        node.written = True
        return node

    def add_evaluation(self, design: int, evaluation: Evaluation) -> Trial:
        """What the judge found about one assignment of a design's constants."""
        node, failure = self.nodes[design], evaluation.failure
        seconds = evaluation.time.seconds if evaluation.accepted and evaluation.time else None
        trial = Trial(
            candidate=evaluation.candidate.digest,
            tunables=evaluation.candidate.tunables,
            seconds=seconds,
            fate=failure.kind if failure is not None else "accepted",
            artifact=evaluation.artifact,
        )
        self.evaluations += 1
        self._owners.setdefault(trial.candidate, design)
        if evaluation.artifact:
            self._owners.setdefault(evaluation.artifact, design)
        if failure is not None:
            node.failure = failure
        node.trials.append(trial)
        if seconds is not None and node.best is None:
            self._learn_move(node, seconds)
        if seconds is not None and (node.seconds is None or seconds < node.seconds):
            node.best = trial
            self._lead(seconds, design)
        if seconds is not None and (self.record is None or seconds < self.record):
            if self.record is None or seconds < self.record * (1 - GAIN):
                self.gained_at = self.evaluations
            self.best, self.record = node, seconds
        return trial

    def _learn_move(self, node: Node, seconds: float) -> None:
        """A first version starts from its parent's best constants, so the two compare."""
        parents = [self.nodes[p] for p in node.intent.parents if p in self.nodes]
        if node.rewritten and parents and parents[0].seconds is not None:
            gain = math.log(parents[0].seconds / seconds)
            self.moved.setdefault(node.intent.move, []).append(gain)

    def _place(self, node: Node) -> None:
        """Hangs a node below its parents. Only nodes without children are ever moved."""
        parents = [self.nodes[p] for p in node.intent.parents if p in self.nodes]
        node.depth = 1 + max((p.depth for p in parents), default=-1)
        node.chain = parents[0].chain if parents else node.id
        seen = {node.id: node}
        for parent in parents:
            parent.children.append(node.id)
            seen |= {n.id: n for n in self._lines[parent.id]}
        self._lines[node.id] = tuple(seen.values())

    def _lead(self, seconds: float, id: int) -> None:
        others = [pair for pair in self.leaders if pair[1] != id]
        self.leaders = sorted([*others, (seconds, id)])[:LEADERS]

    def count_job(self, id: int) -> None:
        """Counts a finished job for a node and all that it came from."""
        for node in self.lineage(id):
            node.jobs += 1
            node.quiet += 1

    def credit(self, id: int, seconds: float) -> None:
        """Renews the credit of a node and of all that it came from, where this is a gain."""
        for node in self.lineage(id):
            if node.peak is None or seconds < node.peak:
                node.peak = seconds
                node.quiet = 0

    def pin(self, node: Node) -> None:
        """Keeps a node, and what came of it, in credit."""
        node.pinned = True
        self.pins += 1

    def lineage(self, id: int) -> tuple[Node, ...]:
        """A node, its parents, their parents ..., each once, the node first."""
        return self._lines[id]

    def chain(self, id: int) -> int:
        """The first intent that a node descends from, by first parents."""
        return self.nodes[id].chain

    def descendants(self, id: int) -> list[Node]:
        """A node and all that came of it, each once."""
        seen: dict[int, Node] = {}
        stack = [id]
        while stack:
            at = stack.pop()
            if at not in seen:
                seen[at] = self.nodes[at]
                stack += self.nodes[at].children
        return list(seen.values())

    def serving(self, root: int) -> list[Node]:
        """The designs that serve one intent: the first one and its repairs."""
        return [n for n in self.descendants(root) if n.root == root]

    def owner(self, digest: str) -> int | None:
        """The design that this program, or this candidate, was first judged for."""
        return self._owners.get(digest)
