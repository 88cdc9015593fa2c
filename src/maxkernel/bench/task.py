"""One task of a table: baseline, expert, then a search or a given kernel; always ends in a row."""

from __future__ import annotations

import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from maxkernel.api import RunOptions, Session, resume_run, start_run
from maxkernel.api.team import Models
from maxkernel.bench.experts import judge_expert
from maxkernel.bench.result import Row, Settings
from maxkernel.bench.settings import code_digest
from maxkernel.engineers.roles import Stopped
from maxkernel.engineers.team import Team
from maxkernel.errors import EnvironmentFault, MaxkernelError, TaskTimeout, UsageError
from maxkernel.judge import Prepared
from maxkernel.report import RunReport
from maxkernel.search import Progress
from maxkernel.search.settings import SearchSettings
from maxkernel.store import list_runs
from maxkernel.suites import Entry
from maxkernel.types import WON, Budget, Candidate, Task

DOUBT = "NO CLAIM OF SPEED: "
"""How a report's notes begin that take back its times."""


@dataclass(frozen=True)
class Method:
    """How every task of a table is worked on."""

    settings: Settings
    team: Team = field(default_factory=Team.builtin)
    models: Models | None = None
    search: SearchSettings | None = None
    kernels: dict[str, str] | None = None
    """Sources by task that are judged instead of searching."""


@dataclass(frozen=True)
class Job:
    """A task with what the suite knows about it."""

    task: Task
    entry: Entry
    expert: Candidate | None = None


class _Clock:
    def __init__(self, limit: float) -> None:
        self.limit = limit
        self._started = time.monotonic()

    @property
    def spent(self) -> float:
        return time.monotonic() - self._started

    @property
    def left(self) -> float:
        return max(0.0, self.limit - self.spent)


def run_task(session: Session, method: Method, job: Job, progress: Progress) -> Row:
    """The task's row. What goes wrong with one task is a row in words, not an exception.

    Raises EnvironmentFault when this machine is at fault, Stopped when `progress` raises it.
    """
    clock, row = _Clock(method.settings.task_seconds), _empty(method.settings, job)
    try:
        row = _run(session, method, job, progress, clock, row)
    except (EnvironmentFault, Stopped):
        raise
    except TaskTimeout as error:
        row = _ended(row, "timeout", f"out of time: {error.message}")
    except MaxkernelError as error:
        row = _ended(row, "error", error.message)
    except Exception as error:
        note = _keep_traceback(session, job.task.name)
        what = f"maxkernel itself failed: {type(error).__name__}: {error}; see {note}"
        row = _ended(row, "error", what)
    return msgspec.structs.replace(row, seconds=clock.spent, made=time.time(), code=code_digest())


def _run(
    session: Session, method: Method, job: Job, progress: Progress, clock: _Clock, row: Row
) -> Row:
    settings = method.settings
    limit = job.entry.compile_seconds.get(settings.edition, session.settings.compile_seconds)
    prepared = session.judge.prepare(
        job.task, lambda stage: progress.stage(stage, None), min(limit, clock.left)
    )
    row = _with_baseline(row, prepared)
    if job.expert is not None and clock.left:
        found = judge_expert(session, prepared, job.expert, progress)
        row = msgspec.structs.replace(
            row, expert=found.time, expert_problem=found.problem, expert_doubt=found.doubt
        )
    if not clock.left:
        return _ended(
            row, "timeout", f"out of time: {clock.limit:.0f} s were over before the search began"
        )
    if method.kernels is not None:
        return _judged(session, prepared, method.kernels.get(job.task.name), progress, row)
    return _searched(session, method, job.task, progress, clock, row)


def _searched(
    session: Session, method: Method, task: Task, progress: Progress, clock: _Clock, row: Row
) -> Row:
    settings = method.settings
    seconds = min(settings.seconds, clock.left)
    budget = Budget(settings.candidates, seconds, settings.patience)
    options = RunOptions(
        team=method.team,
        progress=progress,
        allow_weak=True,
        search=method.search,
        use_memory=False,
        models=method.models,
    )
    report = _resumed(session, task, options)
    if report is None:
        report = start_run(session, task, budget, options)[0]
    return _from_report(row, report, settings.candidates, seconds)


def _resumed(session: Session, task: Task, options: RunOptions) -> RunReport | None:
    """The report of this task's unfinished run in the benchmark's folder, driven to its end.

    It goes on with the models and the budget that it was started with.
    """
    for run in list_runs(session.settings.runs_path):
        if run.task == task.name and run.state == "stopped" and run.digest == task.digest:
            kept = RunOptions(options.team, options.progress, True, None, False)
            try:
                return resume_run(session, Path(run.folder), None, kept)
            except UsageError:  # another compiler made it
                continue
    return None


def _judged(
    session: Session, prepared: Prepared, source: str | None, progress: Progress, row: Row
) -> Row:
    if source is None:
        return _ended(row, "none", "no kernel given for this task")
    evaluation = session.judge.evaluate(
        prepared, Candidate(source), lambda stage: progress.stage(stage, None)
    )
    verdict, failure = session.judge.verdict(prepared, evaluation), evaluation.failure
    if failure is not None and failure.kind == "environment":
        return _ended(row, "error", failure.message)
    best = evaluation.time if evaluation.accepted else None
    won = verdict.outcome if verdict.outcome in WON else "accepted"
    outcome = "refused" if failure is not None else won
    return msgspec.structs.replace(
        row,
        outcome=outcome,
        best=best,
        speedup=verdict.speedup,
        roofline_fraction=prepared.bound.time.seconds / best.seconds if best else None,
        evaluations=1,
        doubt=verdict.doubt,
        message=f"{failure.stage}/{failure.kind}: {failure.message}" if failure else "",
    )


def _from_report(row: Row, report: RunReport, candidates: int, seconds: float) -> Row:
    count = len(report.candidates)
    timed_out = report.reason == "budget" and report.seconds >= seconds and count < candidates
    refused = [line.fate for line in report.candidates if line.fate != "accepted"]
    words = [report.explanation] if report.outcome == "none" else refused[:1]
    if timed_out:
        said = f"stopped by the time limit of {seconds:.0f} s after {count} of {candidates}"
        words.insert(0, f"{said} evaluations")
    doubts = [note.removeprefix(DOUBT) for note in report.notes if note.startswith(DOUBT)]
    costs = [use.cost for use in report.models if use.cost is not None]
    return msgspec.structs.replace(
        row,
        outcome="timeout" if timed_out and report.outcome == "none" else report.outcome,
        best=report.best,
        speedup=report.speedup,
        roofline_fraction=report.roofline_fraction,
        plan=report.plan,
        tunables=report.tunables,
        evaluations=count,
        message="; ".join(word for word in words if word),
        run=report.run,
        cost=sum(costs) if costs and len(costs) == len(report.models) else None,
        tokens=sum(use.input_tokens + use.output_tokens for use in report.models),
        doubt="; ".join(doubts),
    )


def _empty(settings: Settings, job: Job) -> Row:
    known, as_published = job.entry.published, settings.edition != "hardened"
    return Row(
        job.task.name,
        job.task.digest,
        "error",
        published_xla_ms=known.xla_ms if known else None,
        published_pallas_ms=known.pallas_ms if known else None,
        soundness=job.entry.soundness if as_published else "",
        weakness=job.entry.weakness if as_published else "",
    )


def _with_baseline(row: Row, prepared: Prepared) -> Row:
    xla = prepared.xla
    return msgspec.structs.replace(
        row,
        baseline=xla,
        baseline_fraction=prepared.bound.time.seconds / xla.seconds if xla else None,
        misfit=prepared.misfit,
        holes=tuple(hole.name for hole in prepared.lint.holes),
    )


def _ended(row: Row, outcome: str, message: str) -> Row:
    return msgspec.structs.replace(row, outcome=outcome, message=message)


def _keep_traceback(session: Session, task: str) -> Path:
    path = session.settings.runs_path.parent / "errors" / f"{task}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(traceback.format_exc())
    return path
