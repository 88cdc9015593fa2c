"""Runs a suite: finished rows are kept, unfinished tasks go on where they stopped."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Protocol

import msgspec

from maxkernel.api import RunOptions, Session, resume_run, start_run
from maxkernel.bench.result import FORMAT, BenchResult, Row, Settings, load_result, save_result
from maxkernel.engineers.team import Team
from maxkernel.errors import EnvironmentFault, MaxkernelError, UsageError
from maxkernel.report import RunReport
from maxkernel.search import Progress, Silent
from maxkernel.store import list_runs
from maxkernel.suites import Edition, Published, Suite, load, published
from maxkernel.types import Budget, Candidate, Task

TASKS_AT_ONCE = 2
"""Tasks in flight: one plans or checks while the other compiles."""


class BenchProgress(Protocol):
    """Somebody who watches a benchmark."""

    def started(self, task: str) -> Progress:
        """A task begins; its run reports to the result."""
        ...

    def finished(self, row: Row, left: int) -> None:
        """A row is there; `left` tasks remain."""
        ...


class Quiet:
    """Nobody watches."""

    def started(self, task: str) -> Progress:
        """Ignored."""
        return Silent()

    def finished(self, row: Row, left: int) -> None:
        """Ignored."""


def run_bench(
    session: Session,
    names: list[str],
    settings: Settings,
    folder: Path,
    *,
    team: Callable[[], Team] = Team.builtin,
    kernels: dict[str, str] | None = None,
    progress: BenchProgress | None = None,
) -> BenchResult:
    """Runs the tasks `names` of a suite, the slowest published first, and returns the table.

    `folder` keeps the table and every run; rows of the same task text are taken from it.
    `kernels` (task name -> source) are judged instead of searching.
    """
    progress = progress or Quiet()
    suite: Suite = "jaxbench" if settings.suite == "jaxbench" else "models"
    edition: Edition = msgspec.convert(settings.edition, Edition)
    tasks = {name: load(suite, name, edition) for name in names}
    rows = _kept(folder, session, tasks)
    inner = msgspec.structs.replace(session.settings, runs_dir=str(folder / "runs"))
    session = Session(session.executor, session.judge, session.target, inner)
    todo = sorted((n for n in names if n not in rows), key=_published_ms, reverse=True)
    lock = threading.Lock()

    def result() -> BenchResult:
        ordered = tuple(rows[name] for name in names if name in rows)
        sandbox = session.executor.sandbox
        return BenchResult(FORMAT, settings, session.judge.versions, time.time(), ordered, sandbox)

    def work(name: str) -> None:
        task, watcher = tasks[name], progress.started(name)
        if kernels is None:
            row = _search(session, task, settings, RunOptions(team(), watcher, True))
        else:
            row = _judge(session, task, kernels.get(name))
        with lock:
            rows[name] = row
            save_result(folder, result())
        progress.finished(row, len(names) - len(rows))

    with ThreadPoolExecutor(TASKS_AT_ONCE) as pool:
        for done in as_completed([pool.submit(work, name) for name in todo]):
            done.result()
    save_result(folder, result())
    return result()


def _kept(folder: Path, session: Session, tasks: dict[str, Task]) -> dict[str, Row]:
    try:
        known = load_result(folder)
    except UsageError:
        return {}
    if known.versions != session.judge.versions:
        return {}
    return {
        row.task: row
        for row in known.rows
        if row.task in tasks and tasks[row.task].digest == row.digest and row.outcome != "error"
    }


def _search(session: Session, task: Task, settings: Settings, options: RunOptions) -> Row:
    started = time.monotonic()
    budget = Budget(candidates=settings.candidates, seconds=settings.seconds)
    try:
        report = _resumed(session, task, options) or start_run(session, task, budget, options)[0]
    except EnvironmentFault:
        raise
    except MaxkernelError as error:
        return _row(task, "error", message=error.message, seconds=time.monotonic() - started)
    return _from_report(task, report, time.monotonic() - started)


def _resumed(session: Session, task: Task, options: RunOptions) -> RunReport | None:
    """The report of this task's unfinished run in the benchmark's folder, driven to its end."""
    for run in list_runs(session.settings.runs_path):
        if run.task == task.name and run.state == "stopped" and run.digest == task.digest:
            return resume_run(session, Path(run.folder), None, options)
    return None


def _judge(session: Session, task: Task, source: str | None) -> Row:
    started = time.monotonic()
    if source is None:
        return _row(task, "none", message="no kernel given for this task")
    try:
        prepared = session.judge.prepare(task)
        evaluation = session.judge.evaluate(prepared, Candidate(source))
        verdict = session.judge.verdict(prepared, evaluation)
    except EnvironmentFault:
        raise
    except MaxkernelError as error:
        return _row(task, "error", message=error.message, seconds=time.monotonic() - started)
    failure, bound = evaluation.failure, prepared.bound.time.seconds
    accepted = "faster" if verdict.faster else "accepted"
    best = evaluation.time if evaluation.accepted else None
    return _row(
        task,
        accepted if failure is None else "refused",
        baseline=verdict.baseline,
        best=best,
        speedup=verdict.speedup,
        roofline_fraction=bound / best.seconds if best else None,
        baseline_fraction=bound / verdict.baseline.seconds,
        evaluations=1,
        seconds=time.monotonic() - started,
        message=f"{failure.stage}/{failure.kind}: {failure.message}" if failure else "",
    )


def _from_report(task: Task, report: RunReport, seconds: float) -> Row:
    weak = [note for note in report.notes if note.startswith("WEAK TASK")]
    refused = [line.fate for line in report.candidates if line.fate != "accepted"]
    message = report.explanation if report.outcome == "none" else ""
    return _row(
        task,
        report.outcome,
        baseline=report.baseline,
        best=report.best,
        speedup=report.speedup,
        roofline_fraction=report.roofline_fraction,
        baseline_fraction=report.baseline_fraction,
        plan=report.plan,
        tunables=report.tunables,
        evaluations=len(report.candidates),
        seconds=seconds,
        message="; ".join([*weak, message or (refused[0] if refused else "")]).strip("; "),
        run=report.run,
    )


def _row(task: Task, outcome: str, **values: object) -> Row:
    known = _published(task.name)
    fields = {"task": task.name, "digest": task.digest, "outcome": outcome, **values}
    if known is not None:
        fields |= {"published_xla_ms": known.xla_ms, "published_pallas_ms": known.pallas_ms}
    return msgspec.convert(fields, Row, from_attributes=True)


def _published(name: str) -> Published | None:
    return published(name)


def _published_ms(name: str) -> float:
    known = _published(name)
    return (known.xla_ms if known else None) or 0.0
