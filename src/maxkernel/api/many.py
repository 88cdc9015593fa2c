"""Searches for kernels for many tasks in one budget."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import msgspec

from maxkernel.api.runs import RunOptions, create_run, resume_run
from maxkernel.api.session import Session
from maxkernel.errors import TaskError, UsageError
from maxkernel.judge import Prepared, require_sound
from maxkernel.report import RunReport
from maxkernel.search import Context
from maxkernel.search.driver import Driver
from maxkernel.search.memory import Lesson, open_memory
from maxkernel.search.settings import LESSONS, SETTINGS, SearchSettings
from maxkernel.search.shares import Share, next_share
from maxkernel.types import Budget, Task


@dataclass(frozen=True)
class ManyResult:
    """What became of one task; `problem` says why it could not be searched."""

    task: str
    evaluations: int = 0
    report: RunReport | None = None
    folder: Path | None = None
    problem: str = ""


@dataclass
class _Search:
    share: Share
    driver: Driver
    context: Context
    folder: Path


def search_many(
    session: Session, tasks: list[Task], budget: Budget, options: RunOptions
) -> list[ManyResult]:
    """Drives one graph search per task, a few evaluations at a time; the reports in the end.

    `budget.candidates` is shared by all tasks. Every search has its own run, which `resume` can
    go on with. Raises UsageError for an empty list or budget.
    """
    if not tasks:
        raise UsageError("there is no task to search for")
    settings = options.search or SearchSettings()
    results: dict[str, ManyResult] = {}
    with ExitStack() as stack:
        searches: dict[str, _Search] = {}
        for task in tasks:
            try:
                searches[task.name] = _open(session, task, budget, options, settings, stack)
            except TaskError as error:
                results[task.name] = ManyResult(task.name, problem=error.message)
        _share_out(searches, budget)
        for search in searches.values():
            given = msgspec.structs.replace(budget, candidates=max(1, search.share.spent))
            search.context.run.event("budget", budget=msgspec.to_builtins(given))
    for name, search in searches.items():
        report = resume_run(session, search.folder, None, options)
        results[name] = ManyResult(name, search.share.spent, report, search.folder)
    return [results[task.name] for task in tasks]


def _open(
    session: Session,
    task: Task,
    budget: Budget,
    options: RunOptions,
    settings: SearchSettings,
    stack: ExitStack,
) -> _Search:
    prepared = session.judge.prepare(task)
    if not options.allow_weak:
        require_sound(task.name, prepared.lint)
    run = stack.enter_context(create_run(session, task, budget, "graph"))
    run.step("prepared", Prepared, lambda: prepared)
    run.step(SETTINGS, SearchSettings, lambda: settings)
    with open_memory(session.settings.cache_path, options.use_memory) as memory:
        known = memory.lessons(prepared.info, prepared.target.name) if memory is not None else []
    lessons = run.step(LESSONS, list[Lesson], lambda: known)
    nothing = msgspec.structs.replace(budget, candidates=0)
    context = Context(
        run=run,
        judge=session.judge,
        prepared=prepared,
        team=options.team,
        budget=nothing,
        workers=session.settings.workers,
        progress=options.progress,
    )
    return _Search(Share(task.name), Driver(context, settings, lessons), context, run.folder)


def _share_out(searches: dict[str, _Search], budget: Budget) -> None:
    shares = [search.share for search in searches.values()]
    while True:
        turn = next_share(shares, budget.candidates - sum(share.spent for share in shares))
        if turn is None:
            return
        share, more = turn
        search = searches[share.name]
        search.context.budget = msgspec.structs.replace(budget, candidates=share.spent + more)
        reason = search.driver.drive()
        graph = search.driver.board.graph
        idle = graph.evaluations == share.spent
        share.report(graph.evaluations, graph.record, reason != "budget" or idle)
