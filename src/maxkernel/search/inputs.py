"""What a job is given: read from the graph and the run file at the moment it is decided."""

from __future__ import annotations

import msgspec

from maxkernel.search.board import Board, outcome
from maxkernel.search.graph import Node
from maxkernel.search.job import Job
from maxkernel.search.work import Inputs
from maxkernel.store import RunFile
from maxkernel.types import Evaluation, Intent, Outcome, Plan


def inputs_of(run: RunFile, board: Board, job: Job, *, history: bool) -> Inputs:
    """The inputs of a job that has just begun; `history`: also for moves, which cost a look at
    the whole graph."""
    match job.kind:
        case "plan":
            return Inputs(history=(*board.history(), *_said("", board.hints)))
        case "implement":
            return Inputs(intent=_intent(run, board, job.node))
        case "repair":
            broken = board.graph[job.broken]
            return Inputs(_intent(run, board, job.node), run.design(job.broken), broken.failure)
        case "moves":
            node = board.graph[job.node]
            partners = [run.design(id) for id in job.partners]
            return Inputs(
                design=run.design(job.node),
                evaluation=_best(run, node),
                partners=tuple(p for p in partners if p is not None),
                history=_lineage(board, node) if history else (),
            )
        case "rank" | "tune":
            return Inputs(design=run.design(job.node))
        case "idle":
            return Inputs()


def _intent(run: RunFile, board: Board, id: int) -> Intent:
    """A node's intent as it stands now, with the source that only the run file keeps."""
    stored = run.intent(id)
    source = stored.source if stored is not None else ""
    return msgspec.structs.replace(board.graph[id].intent, source=source)


def _best(run: RunFile, node: Node) -> Evaluation | None:
    return run.evaluation(node.best.candidate) if node.best is not None else None


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
