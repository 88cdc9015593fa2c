"""Folds jobs and results into a board. The same fold serves a search, its resumption and readers.

Order: before decision n, the result of decision n - width is applied; nothing else. So what a
decision sees does not depend on how many workers there are or how fast they are.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from maxkernel.search.board import Board
from maxkernel.search.graph import MISFIT, TWIN, UNCAPTURED, Node, Trial
from maxkernel.search.job import Job, JobResult
from maxkernel.types import Design, Evaluation, Intent, Move


class Library(Protocol):
    """Where applied results keep their designs and evaluations."""

    def design(self, id: int) -> Design | None:
        """A stored design."""
        ...

    def intent(self, id: int) -> Intent | None:
        """A stored intent."""
        ...

    def evaluation(self, candidate: str) -> Evaluation | None:
        """A stored evaluation, by its candidate's digest."""
        ...


class Applied(msgspec.Struct, frozen=True):
    """What a driver stores after applying a result."""

    result: JobResult
    """Without what the other fields hold; applying it again does the same."""
    design: Design | None = None
    evaluation: Evaluation | None = None
    intents: tuple[Intent, ...] = ()


def begin(board: Board, library: Library, job: Job) -> None:
    """A decision is made: what came from outside is taken in, and its job is under way."""
    for id in job.intents:
        intent = library.intent(id)
        if intent is not None:
            board.take_in(intent)
    for id in job.designs:
        design = library.design(id)
        if design is not None:
            board.adopt(design)
    for id, candidate in job.judged:
        evaluation = library.evaluation(candidate)
        if evaluation is not None:
            trial = board.graph.add_evaluation(id, evaluation)
            if trial.seconds is not None:
                board.graph.credit(id, trial.seconds)
            board.touch(id)
    for steer in job.steers:
        board.steer(steer)
    board.start(job)


def apply(board: Board, library: Library, job: Job, result: JobResult) -> Applied:
    """The result of a job enters the graph."""
    match job.kind:
        case "implement" | "repair" | "tune":
            applied = _judged(board, library, job, result)
        case "plan":
            moves = [(Move("plan", plan), ()) for plan in result.plans]
            intents = _intend(board, moves)
            board.plans_end = not intents
            applied = Applied(result, intents=intents)
        case "moves":
            applied = Applied(result, intents=_moved(board, job, result))
        case "rank":
            board.learn_constants(job.node, result)
            applied = Applied(result)
        case "idle":
            applied = Applied(result)
    board.finish(job)
    return applied


def _judged(board: Board, library: Library, job: Job, result: JobResult) -> Applied:
    graph, node = board.graph, board.graph[job.node]
    design = result.design or (library.design(node.id) if result.written else None)
    if design is not None:
        graph.add_design(design)
    graph.count_job(node.id)
    plain = msgspec.structs.replace(
        result, design=None, evaluation=None, written=design is not None and job.kind != "tune"
    )
    evaluation = result.evaluation
    if evaluation is None and result.candidate and not (result.same_as or result.misfit):
        evaluation = library.evaluation(result.candidate)
    program = result.same_as or (evaluation.artifact if evaluation is not None else result.artifact)
    for digest in (program, result.candidate):
        owner = graph.owner(digest)
        if owner is not None:
            _unjudged(node, job, result, f"{TWIN} {owner}")
            return Applied(msgspec.structs.replace(plain, same_as=digest, limit=""), design)
    if result.misfit:
        fate = f"{UNCAPTURED}: {result.note}" if result.note else MISFIT
        _unjudged(node, job, result, fate)
        return Applied(plain, design)
    if evaluation is None:
        node.dead = result.note or "nothing came of it"
        return Applied(plain, design)
    trial = graph.add_evaluation(node.id, evaluation)
    if trial.seconds is not None:
        graph.credit(node.id, trial.seconds)
        if node.rewritten and job.kind == "implement":
            board.learn_move(node)
    if trial is node.best:
        node.limit = result.limit or node.limit
    return Applied(plain, design, evaluation)


def _unjudged(node: Node, job: Job, result: JobResult, fate: str) -> None:
    """A trial whose fate is known without judging it."""
    node.trials.append(Trial(result.candidate, job.tunables, None, fate, result.same_as))
    if job.kind != "tune":
        node.dead = fate


def _moved(board: Board, job: Job, result: JobResult) -> tuple[Intent, ...]:
    moves = [(move, (job.node,)) for move in result.moves]
    moves += [(merge.move, (job.node, merge.other)) for merge in result.merges]
    return _intend(board, moves)


def _intend(board: Board, moves: list[tuple[Move, tuple[int, ...]]]) -> tuple[Intent, ...]:
    made = [board.intend(move, parents) for move, parents in moves]
    return tuple(intent for intent in made if intent is not None)
