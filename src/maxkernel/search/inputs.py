"""What a job is given: the graph as it stood at the moment of the decision."""

from __future__ import annotations

from dataclasses import dataclass

from maxkernel.search.board import Board, outcome
from maxkernel.search.graph import Node
from maxkernel.search.job import Job
from maxkernel.types import Failure, Intent, Outcome, Plan


@dataclass(frozen=True)
class Inputs:
    """Sources and evaluations are left in the run file; the worker's thread reads them there."""

    intent: Intent | None = None
    """What is to be written, by `implement` and `repair`; without a source."""
    design: int = 0
    """What is to be worked on; for `repair`, the design to mend."""
    failure: Failure | None = None
    best: str = ""
    """Digest of the best candidate of `design`."""
    partners: tuple[int, ...] = ()
    history: tuple[Outcome, ...] = ()


def inputs_of(board: Board, job: Job, *, history: bool) -> Inputs:
    """The inputs of a job that has just begun; `history`: also for moves, which cost a look at
    the whole graph."""
    match job.kind:
        case "plan":
            return Inputs(history=(*board.history(), *_said("", board.hints)))
        case "implement":
            return Inputs(board.graph[job.node].intent)
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
        case "rank" | "tune":
            return Inputs(design=job.node)
        case "idle":
            return Inputs()


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
