"""Reads the graph of any run, running or not, whatever mode drives it."""

from __future__ import annotations

from maxkernel.judge import Prepared
from maxkernel.search.apply import apply, begin
from maxkernel.search.board import Board
from maxkernel.search.job import CHOICE, RESULT, Job, JobResult
from maxkernel.search.memory import Lesson
from maxkernel.search.options import Scale, scale_of
from maxkernel.search.porting import PORTED, Ported
from maxkernel.search.settings import LESSONS, SETTINGS, SearchSettings
from maxkernel.store import RunFile


def read_board(run: RunFile) -> Board:
    """The board of a run as its file stands now; nothing is written."""
    prepared = run.recall("prepared", Prepared)
    scale = scale_of(prepared) if prepared is not None else Scale(1.0, False)
    board = Board(scale, run.recall(LESSONS, list[Lesson]) or ())
    settings = run.recall(SETTINGS, SearchSettings)
    if settings is not None:
        _replay(run, board, settings.width)
    number = -1
    begin(board, run, foreign(run, board, number))
    return board


def foreign(run: RunFile, board: Board, number: int) -> Job:
    """A decision that takes in what other modes did and what was ported, as far as the board does
    not know it."""
    graph = board.graph
    designs = [d.id for d in run.designs() if d.id not in graph.nodes or not graph[d.id].written]
    judged = [
        (design, evaluation.candidate.digest)
        for design, evaluation in run.evaluations()
        if graph.owner(evaluation.candidate.digest) is None
    ]
    ported = run.recall(PORTED, Ported)
    intents = [id for id in ported.intents if id not in graph.nodes] if ported is not None else []
    return Job(number, "idle", designs=tuple(designs), judged=tuple(judged), intents=tuple(intents))


def _replay(run: RunFile, board: Board, width: int) -> None:
    jobs: list[Job] = []
    applied = 0
    while (job := run.recall(f"{CHOICE}{len(jobs)}", Job)) is not None:
        if len(jobs) >= width and not _apply(run, board, jobs[applied]):
            break
        applied += len(jobs) >= width
        jobs.append(job)
        begin(board, run, job)
    for job in jobs[applied:]:
        if not _apply(run, board, job):
            break


def _apply(run: RunFile, board: Board, job: Job) -> bool:
    """Applies a stored result; False when there is none yet."""
    idle = job.kind == "idle"
    result = JobResult() if idle else run.recall(f"{RESULT}{job.number}", JobResult)
    if result is not None:
        apply(board, run, job, result)
    return result is not None
