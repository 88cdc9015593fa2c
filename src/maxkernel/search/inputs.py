"""What a job is given: the graph as it stood at the moment of the decision."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from maxkernel.search.board import Board
from maxkernel.search.constants import Constants
from maxkernel.search.graph import Node
from maxkernel.search.job import Job
from maxkernel.search.outcomes import outcome
from maxkernel.types import Failure, Intent, Outcome, Plan


@dataclass(frozen=True)
class Example:
    """A design whose constants are ranked, and that differs by rewrites from another one."""

    constants: Constants
    judged: str
    """Digest of a candidate of it."""
    rewritten: str
    """Digest of the other one's candidate with the same constants."""


@dataclass(frozen=True)
class Inputs:
    """Sources and evaluations are left in the run file; the worker's thread reads them there."""

    intent: Intent | None = None
    """What is to be written, by `implement` and `repair`; without a source. A move starts from
    the best constants that its parents have when its turn comes."""
    design: int = 0
    """What is to be worked on; for `repair`, the design to mend."""
    failure: Failure | None = None
    best: str = ""
    """Digest of the best candidate of `design`."""
    partners: tuple[int, ...] = ()
    history: tuple[Outcome, ...] = ()
    example: Example | None = None
    """For `rank`."""


def inputs_of(board: Board, job: Job, *, history: bool) -> Inputs:
    """The inputs of a job that has just begun; `history`: also for moves, which cost a look at
    the whole graph."""
    match job.kind:
        case "plan":
            return Inputs(history=(*board.history(), *_said("", board.hints)))
        case "implement":
            intent = board.graph[job.node].intent
            if not intent.parents:
                return Inputs(intent)
            constants = board.best_constants(intent.parents)
            return Inputs(msgspec.structs.replace(intent, tunables=constants))
        case "repair":
            broken = board.graph[job.broken]
            return Inputs(board.graph[job.node].intent, job.broken, broken.failure)
        case "moves":
            node = board.graph[job.node]
            return Inputs(
                design=job.node,
                best=node.best.candidate if node.best is not None else "",
                partners=job.partners,
                history=_lineage(board, node) if history else (),
            )
        case "rank":
            return Inputs(design=job.node, example=_example(board, board.graph[job.node]))
        case "tune":
            return Inputs(design=job.node)
        case "idle":
            return Inputs()


def _example(board: Board, node: Node) -> Example | None:
    """The nearest relative by rewriting that is ranked and was judged with the same constants."""
    for other in _rewrites(board, node):
        constants = board.constants.get(other.id)
        mine, its = ([t for t in n.trials if t.seconds is not None] for n in (node, other))
        for one, two in itertools.product(mine, its if constants is not None else ()):
            if constants is not None and constants.same(one.tunables, two.tunables):
                return Example(constants, two.candidate, one.candidate)
    return None


def _rewrites(board: Board, node: Node) -> Iterator[Node]:
    """What it was made of by rewriting and what was so made of it, and so on, the nearest first."""
    graph, seen, queue = board.graph, {node.id}, [node]
    for at in queue:
        below = [c for c in at.children if graph[c].rewritten]
        for id in [*(at.intent.parents[:1] if at.rewritten else ()), *below]:
            if id not in seen and id in graph.nodes:
                seen.add(id)
                queue.append(graph[id])
                yield graph[id]


def _lineage(board: Board, node: Node) -> tuple[Outcome, ...]:
    """What became of everything else, then of the design's own line, itself last, then hints."""
    line = [n for n in reversed(board.graph.lineage(node.id)) if not n.is_repair]
    mine = [outcome(board.graph, n, board.scale) for n in line]
    plans = {id(o.plan) for o in mine}
    others = [o for o in board.history() if id(o.plan) not in plans]
    hints = [text for n in line for text in n.hints]
    return (*others, *mine, *_said(str(node.id), [*board.hints, *hints]))


def _said(design: str, hints: list[str]) -> tuple[Outcome, ...]:
    """People's hints in the form in which planners read history."""
    about = f"a person's hint about design {design}" if design else "a person's hint"
    return tuple(Outcome(Plan("hint", text, about), None, None, None) for text in hints)
