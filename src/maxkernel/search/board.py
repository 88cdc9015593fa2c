"""A search in progress, in memory: the graph, what is under way, and what could be done next."""

from __future__ import annotations

import hashlib
import heapq
import math
from collections import Counter
from collections.abc import Sequence

import msgspec

from maxkernel.search.constants import Constants
from maxkernel.search.graph import DesignGraph, Node
from maxkernel.search.job import Job, JobResult, Steer
from maxkernel.search.memory import Lesson, expected, name_of_plan
from maxkernel.search.options import Option, Scale, Shared, follows, options_of
from maxkernel.search.outcomes import outcome
from maxkernel.types import Design, Intent, Move, Outcome, Plan, Tunable

PLAN_EVERY = 8
"""Evaluations after which the planner may be asked again, with what was learned meanwhile."""

FRONTIER = 128
"""Nodes whose options a policy sees; what is worth less waits."""

REFRESH = 64
"""Decisions after which the frontier is chosen anew."""


class Board:
    """Built by replaying the same jobs and results in the same order; decides nothing itself."""

    def __init__(self, scale: Scale, lessons: Sequence[Lesson] = ()) -> None:
        self.graph = DesignGraph()
        self.scale = scale
        self._lessons = {lesson.move: lesson for lesson in lessons}
        self.constants: dict[int, Constants] = {}
        self.asked: set[int] = set()
        self.running: dict[int, Job] = {}
        self.reserved = 0
        """Evaluations that the jobs under way may still use."""
        self.chains: Counter[int] = Counter()
        """Jobs under way per chain (see `DesignGraph.chain`)."""
        self.plans_end = False
        """The planner has nothing more."""
        self.hints: list[str] = []
        """What people said about the whole task."""
        self._planned_at = -PLAN_EVERY
        self._keys: dict[str, int] = {}
        """Node of every plan and of every given source."""
        self._dirty: set[int] = set()
        self._options: dict[int, list[Option]] = {}
        self._front: set[int] = set()
        self._worths: dict[int, float] = {}
        self._worths_at = -math.inf
        """What the best option of a node is worth, and the best merit that it is worth it at."""
        self._looks = 0
        self._leader: Node | None = None
        """The design that led at the last look: its line keeps its credit."""
        self._next_id = 1

    @property
    def open(self) -> int:
        """Designs and intents that something could be done with, as of the last look."""
        return len(self._options)

    def look(self) -> None:
        """Works out anew what could be done with the nodes that changed.

        Called once before every decision, a stored one too: so what the board holds follows from
        the decisions and results so far, and not from where a search was taken up again.
        """
        if self.graph.best is not self._leader:
            leaders = [n for n in (self._leader, self.graph.best) if n is not None]
            self._dirty.update(n.id for leader in leaders for n in self.graph.lineage(leader.id))
            self._leader = self.graph.best
        shared = Shared()
        for id in sorted(self._dirty):
            node = self.graph[id]
            found = options_of(
                self.graph, node, self.constants.get(id), id in self.asked, self.scale, shared
            )
            self._worths.pop(id, None)
            if found:
                self._options[id] = found
                self._front.add(id)
            else:
                self._options.pop(id, None)
                self._front.discard(id)
        self._dirty.clear()
        self._looks += 1
        if len(self._front) > 2 * FRONTIER or self._looks % REFRESH == 0:
            self._front = self._valuable()

    def options(self) -> list[Option]:
        """What could be done next, by node, then by kind: of the most valuable nodes only, as of
        the last look."""
        found = [o for id in sorted(self._front) for o in self._options[id]]
        return [*found, *self._plan_option(found)]

    def of(self, id: int) -> list[Option]:
        """What could be done with one node, as of the last look."""
        return self._options.get(id, [])

    def start(self, job: Job) -> None:
        """A job is under way."""
        if job.kind == "idle":
            return
        self.running[job.number] = job
        self.reserved += job.cost
        if job.kind == "plan":
            self._planned_at = self.graph.evaluations
        if job.kind == "repair":
            self._intend_repair(job)
        if job.node:
            self.graph[job.node].active += 1
            self.chains[self.graph.chain(job.node)] += 1
            if job.kind == "tune":
                self.constants[job.node].start(job.tunables)
            if job.kind == "moves":
                self.asked.add(job.node)
            self.touch(job.node)

    def finish(self, job: Job) -> None:
        """Its result is in the graph."""
        if self.running.pop(job.number, None) is None:
            return
        self.reserved -= job.cost
        if job.node:
            self.graph[job.node].active -= 1
            self._leave(self.graph.chain(job.node))
            if job.kind == "tune":
                self.constants[job.node].done(job.tunables)
            self.touch(job.node)

    def touch(self, id: int) -> None:
        """A node changed: what could be done with it and around it is worked out again.

        That is all that it came from, its children, which learn from its trials, and whatever
        else below these takes its value from them (see `follows`).
        """
        seen: set[int] = set()
        nodes = self.graph.nodes
        stack = [n.id for n in self.graph.lineage(id)]
        while stack:
            at = stack.pop()
            if at in seen:
                continue
            seen.add(at)
            below = self.graph[at].children
            stack += below if at == id else [c for c in below if follows(self.graph, nodes[c])]
        self._dirty |= seen

    def steer(self, steer: Steer) -> None:
        """A person's word. A pin keeps a design in credit, a cut ends all that came of it, a
        hint has its moves (or the whole task's plans) asked for again."""
        if steer.action == "hint" and not steer.node:
            self.hints.append(steer.text)
            self.plans_end = False
            self._planned_at = -PLAN_EVERY
            return
        node = self.graph[steer.node]
        if steer.action == "cut":
            for below in self.graph.descendants(node.id):
                below.cut = True
                self._dirty.add(below.id)
            return
        if steer.action == "pin":
            self.graph.pin(node)
        else:
            node.hints.append(steer.text)
            node.quiet = 0
            self.asked.discard(node.id)
        self._dirty.update(below.id for below in self.graph.descendants(node.id))

    def adopt(self, design: Design) -> None:
        """Takes in a design that another mode made."""
        for key in (_key(design.plan, ""), _key(design.plan, design.source)):
            self._keys.setdefault(key, design.id)
        self._next_id = max(self._next_id, design.id + 1)
        self.graph.add_design(design)
        self.touch(design.id)

    def take_in(self, intent: Intent) -> None:
        """An intent that came from outside, with its source."""
        self._keys.setdefault(_key(intent.plan, intent.source), intent.id)
        self._next_id = max(self._next_id, intent.id + 1)
        self.graph.add_intent(intent)
        self.touch(intent.id)

    @property
    def next_id(self) -> int:
        """The first id that is not taken."""
        return self._next_id

    def learn_move(self, node: Node) -> None:
        """A move was tried on some design: what it promises elsewhere is worked out again."""
        waiting = [n.id for n in self.graph if n.intent.move == node.intent.move]
        self._dirty.update(id for id in waiting if not self.graph[id].written)

    def intend(self, move: Move, parents: tuple[int, ...]) -> Intent | None:
        """Adds what a move leads to as an intent; None when the graph has the same one already.

        It starts from the best constants of its parents, those of the first one foremost. One
        that is planned already moves below the faster parent.
        """
        key = _key(move.plan, move.source)
        known = self._keys.get(key)
        if known is not None:
            node = self.graph[known]
            if node.state == "planned" and self._faster(parents, node.intent.parents):
                self.graph.move_below(known, self._intent(known, move, parents))
                self.touch(known)
            return None
        intent = self._intent(self._next_id, move, parents)
        self._keys[key] = intent.id
        self._next_id += 1
        self.graph.add_intent(intent)
        self.touch(intent.id)
        return intent

    def learn_constants(self, node: int, result: JobResult) -> None:
        """What a `rank` job found."""
        self.constants[node] = Constants(dict(result.space), result.ranked, result.captured)
        self.touch(node)

    def history(self) -> tuple[Outcome, ...]:
        """What became of every intent so far, oldest first."""
        roots = [n for n in self.graph if not n.is_repair]
        return tuple(outcome(self.graph, n, self.scale) for n in roots if n.state != "planned")

    def _leave(self, chain: int) -> None:
        self.chains[chain] -= 1
        if not self.chains[chain]:
            del self.chains[chain]

    def best_constants(self, parents: tuple[int, ...]) -> dict[str, Tunable]:
        """The best constants of some designs so far, those of the first one foremost."""
        tunables: dict[str, Tunable] = {}
        for parent in reversed(parents):
            best = self.graph[parent].best
            tunables |= best.tunables if best is not None else {}
        return tunables

    def _intent(self, id: int, move: Move, parents: tuple[int, ...]) -> Intent:
        tunables = self.best_constants(parents)
        gain = expected(self._lessons, move.name, move.gain)
        plan = move.plan if parents else self._promising(move.plan)
        return Intent(id, plan, move.name, parents, gain, move.source, tunables)

    def _promising(self, plan: Plan) -> Plan:
        """A plan whose estimate takes in what it came to before."""
        name = name_of_plan(plan)
        if name not in self._lessons:
            return plan
        own = self.scale.merit(plan.expected_seconds) if plan.expected_seconds else 0.0
        merit = expected(self._lessons, name, own)
        return msgspec.structs.replace(plan, expected_seconds=self.scale.seconds(merit))

    def _faster(self, new: tuple[int, ...], old: tuple[int, ...]) -> bool:
        """True when the first of the new parents is faster than the first of the old ones."""
        if not new or not old:
            return False
        mine, theirs = self.graph[new[0]].seconds, self.graph[old[0]].seconds
        return mine is not None and (theirs is None or mine < theirs)

    def _intend_repair(self, job: Job) -> None:
        failure = self.graph[job.broken].failure
        move = f"repair {failure.kind}" if failure is not None else "repair"
        plan = self.graph[job.broken].intent.plan
        self.graph.add_intent(Intent(job.node, plan, move, (job.broken,)))
        self._next_id = max(self._next_id, job.node + 1)

    def _valuable(self) -> set[int]:
        """Nodes whose best option is worth most."""
        best = self.scale.merit(self.graph.record) if self.graph.record else -math.inf
        if best != self._worths_at:
            self._worths, self._worths_at = {}, best
        worths, pinned = self._worths, set[int]()
        for id, found in self._options.items():
            if id not in worths:
                worths[id] = max(o.worth(best) for o in found)
            if found[0].pinned:
                pinned.add(id)
        return pinned | set(heapq.nlargest(FRONTIER, worths, key=lambda id: (worths[id], -id)))

    def _plan_option(self, others: list[Option]) -> list[Option]:
        """Asking the planner again: at the start, when ideas run out, and every now and then."""
        if self.plans_end or any(job.kind == "plan" for job in self.running.values()):
            return []
        waiting = any(o.kind == "implement" and not o.parent for o in others)
        if waiting or self.graph.evaluations + self.reserved < self._planned_at + PLAN_EVERY:
            return [] if others or self.running else [_PLAN]
        return [_PLAN]


_PLAN = Option("plan", 0, 0.0, 0.0, 0)


def _key(plan: Plan, source: str) -> str:
    """What makes two intents the same: the source where it is given, else the plan's content."""
    if source:
        return hashlib.sha256(source.encode()).hexdigest()
    return repr((plan.family, plan.strategy, sorted(plan.options.items())))
