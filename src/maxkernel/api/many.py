"""Searches for kernels for many tasks in one budget."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from maxkernel.api.many_record import ManyRecord, Opened, Slice, load, new_folder, save
from maxkernel.api.runs import RunOptions, check_versions, create_run, resume_run
from maxkernel.api.session import Session
from maxkernel.api.stopping import stop_ear
from maxkernel.errors import TaskError, UsageError
from maxkernel.judge import Prepared, require_sound
from maxkernel.report import RunReport
from maxkernel.search import Context
from maxkernel.search.driver import Driver, Reason
from maxkernel.search.memory import Lesson, open_memory
from maxkernel.search.settings import LESSONS, SETTINGS, SearchSettings
from maxkernel.search.shares import Share, next_share
from maxkernel.store import RunFile
from maxkernel.store.claim import claim
from maxkernel.types import Budget, Task

OnChange = Callable[[Path, ManyRecord], None]
"""Called with the folder of the search whenever its record has changed."""


@dataclass(frozen=True)
class ManyResult:
    """What became of one task; `problem` says why there is no report."""

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
    session: Session,
    tasks: list[Task],
    budget: Budget,
    options: RunOptions,
    on_change: OnChange = lambda _, __: None,
) -> list[ManyResult]:
    """Drives one graph search per task, a few evaluations at a time; the reports in the end.

    `budget` is shared by all tasks; its seconds end the search, evaluations that are under way
    and the confirmation of winners excepted. Every search has its own run, which `resume` can go
    on with; `resume_many` goes on with all of them. Raises UsageError for an empty list.
    """
    if not tasks:
        raise UsageError("there is no task to search for")
    record = ManyRecord(
        target=session.target.name,
        budget=budget,
        settings=options.search or SearchSettings(),
        tasks=tuple(tasks),
        allow_weak=options.allow_weak,
        use_memory=options.use_memory,
    )
    folder = new_folder(session.settings.runs_path, session.target.name)
    return _drive(session, options, folder, record, on_change)


def resume_many(
    session: Session,
    folder: Path,
    budget: Budget | None,
    options: RunOptions,
    on_change: OnChange = lambda _, __: None,
) -> list[ManyResult]:
    """Goes on where a search for many tasks stopped or was killed; what was spent stays spent.

    `budget` replaces the old one. Search settings, memory and weak tasks are as they were.
    Raises UsageError for a folder without a record, and while another process drives it.
    """
    record = load(folder)
    if budget is not None:
        record = msgspec.structs.replace(record, budget=budget)
    return _drive(session, options, folder, record, on_change)


def _drive(
    session: Session,
    options: RunOptions,
    folder: Path,
    record: ManyRecord,
    on_change: OnChange,
) -> list[ManyResult]:
    lock = claim(folder)
    try:
        return _Many(session, options, folder, record, on_change).drive()
    finally:
        os.close(lock)


class _Many:
    """One session of a search for many tasks."""

    def __init__(
        self,
        session: Session,
        options: RunOptions,
        folder: Path,
        record: ManyRecord,
        on_change: OnChange,
    ) -> None:
        self._session, self._folder, self._record = session, folder, record
        self._on_change = on_change
        self._options = dataclasses.replace(
            options,
            search=record.settings,
            allow_weak=record.allow_weak,
            use_memory=record.use_memory,
        )
        self._deadline = float("inf")

    def drive(self) -> list[ManyResult]:
        """To the end of the budget or of ideas."""
        searches: dict[str, _Search] = {}
        with self._clock(), ExitStack() as stack:
            for task in self._record.tasks:
                if task.name in self._record.problems or self._late():
                    continue
                try:
                    searches[task.name] = self._open(task, stack)
                except TaskError as error:
                    self._change(problems=self._record.problems | {task.name: error.message})
            self._catch_up(searches)
            self._share_out(searches)
            for search in searches.values():
                given = self._own_budget(max(1, search.share.spent))
                search.context.run.event("budget", budget=msgspec.to_builtins(given))
        return [self._result(task.name, searches.get(task.name)) for task in self._record.tasks]

    def _open(self, task: Task, stack: ExitStack) -> _Search:
        """The task's run, a new one where it has none."""
        known = self._record.runs.get(task.name)
        if known is not None:
            run = stack.enter_context(RunFile.resume(self._folder.parent / known))
            check_versions(self._session, run.header)
        else:
            run = self._create(task, stack)
        prepared = run.step("prepared", Prepared, lambda: self._session.judge.prepare(task))
        heard = stop_ear(run)
        context = Context(
            run=run,
            judge=self._session.judge,
            prepared=prepared,
            team=self._options.team,
            budget=self._own_budget(0),
            workers=self._session.settings.workers,
            progress=self._options.progress,
            stopping=lambda: self._late() or heard(),
        )
        lessons = run.recall(LESSONS, list[Lesson]) or []
        driver = Driver(context, self._record.settings, lessons)
        return _Search(Share(task.name), driver, context, run.folder)

    def _create(self, task: Task, stack: ExitStack) -> RunFile:
        prepared = self._session.judge.prepare(task)
        if not self._record.allow_weak:
            require_sound(task.name, prepared.lint)
        run = stack.enter_context(create_run(self._session, task, self._record.budget, "graph"))
        run.step("prepared", Prepared, lambda: prepared)
        run.step(SETTINGS, SearchSettings, lambda: self._record.settings)
        with open_memory(self._session.settings.cache_path, self._record.use_memory) as memory:
            run.step(
                LESSONS,
                list[Lesson],
                lambda: memory.lessons(prepared.info, prepared.target.name) if memory else [],
            )
        self._change(runs=self._record.runs | {task.name: run.folder.name})
        return run

    def _catch_up(self, searches: dict[str, _Search]) -> None:
        """Takes in what earlier sessions did: their slices, then what no slice tells of."""
        if len(self._record.sessions) < 2:
            return
        for done in self._record.slices:
            if done.task in searches:
                searches[done.task].share.report(done.spent, done.best, done.over)
        for search in searches.values():
            search.driver.drive()
            if search.driver.board.graph.evaluations > search.share.spent:
                self._report(search, over=False)

    def _share_out(self, searches: dict[str, _Search]) -> None:
        shares = [search.share for search in searches.values()]
        while not self._late():
            left = self._record.budget.candidates - sum(share.spent for share in shares)
            turn = next_share(shares, left)
            if turn is None:
                return
            share, more = turn
            search = searches[share.name]
            search.context.budget = self._own_budget(share.spent + more)
            reason: Reason = search.driver.drive()
            idle = search.driver.board.graph.evaluations == share.spent
            ended = reason not in ("budget", "stopped") or (reason == "budget" and idle)
            self._report(search, over=ended)
            if reason == "stopped":
                share.over = True  # for this session

    def _report(self, search: _Search, *, over: bool) -> None:
        graph, share = search.driver.board.graph, search.share
        share.report(graph.evaluations, graph.record, over)
        done = Slice(share.name, graph.evaluations, graph.record, over)
        self._change(slices=(*self._record.slices, done))

    def _result(self, name: str, search: _Search | None) -> ManyResult:
        if search is None:
            problem = self._record.problems.get(name, "the time was over before its turn")
            return ManyResult(name, problem=problem)
        if not search.share.spent:
            problem = "the budget was over before its turn"
            return ManyResult(name, folder=search.folder, problem=problem)
        report = resume_run(self._session, search.folder, None, self._options)
        return ManyResult(name, search.share.spent, report, search.folder)

    def _own_budget(self, candidates: int) -> Budget:
        """Of one run; seconds belong to all of them together."""
        return msgspec.structs.replace(self._record.budget, candidates=candidates, seconds=None)

    def _late(self) -> bool:
        return time.monotonic() >= self._deadline

    def _change(self, **fields: Any) -> None:
        self._record = msgspec.structs.replace(self._record, **fields)
        save(self._folder, self._record)
        self._on_change(self._folder, self._record)

    @contextmanager
    def _clock(self) -> Generator[None]:
        """Counts this session's seconds, and those of one before it that was killed."""
        before = [
            s if s.end is not None else Opened(s.start, self._last_sign(s.start))
            for s in self._record.sessions
        ]
        start = time.time()
        self._change(sessions=(*before, Opened(start)))
        if self._record.budget.seconds is not None:
            left = self._record.budget.seconds - self._record.seconds
            self._deadline = time.monotonic() + left
        try:
            yield
        finally:
            self._change(sessions=(*before, Opened(start, time.time())))

    def _last_sign(self, start: float) -> float:
        """When a killed session, the latest one, last wrote to a run."""
        last = start
        for name in self._record.runs.values():
            with RunFile.read(self._folder.parent / name) as run:
                last = max([last, *(event.at for event in run.events())])
        return last
