"""Starts, drives and resumes runs."""

from __future__ import annotations

import re
import secrets
import time
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from maxkernel.api.session import Session
from maxkernel.api.stopping import stop_ear
from maxkernel.api.team import (
    MODELS,
    Models,
    change_models,
    check_models,
    models_in_force,
    staffed,
    warm_models,
)
from maxkernel.engineers.roles import NoAnswer
from maxkernel.engineers.team import Team
from maxkernel.errors import EnvironmentFault, UsageError
from maxkernel.judge import Prepared, require_sound
from maxkernel.modes import Finish, run_auto, run_graph
from maxkernel.report import RunReport, build_report, write_bundle
from maxkernel.search import Context, Progress, Silent
from maxkernel.search.memory import open_memory
from maxkernel.search.porting import FROM, bring, portable
from maxkernel.search.settings import SETTINGS, SearchSettings
from maxkernel.store import RunFile, RunHeader
from maxkernel.types import WON, Budget, Candidate, InputCase, Task

BUNDLE = "bundle"

CASES = "cases"
"""The step of a run file that holds the inputs that a tester thought of."""


@dataclass(frozen=True)
class RunOptions:
    """How to drive a run; none of it changes what a verdict means."""

    team: Team = field(default_factory=Team.builtin)
    """Fills the roles that no model fills."""
    progress: Progress = field(default_factory=Silent)
    allow_weak: bool = False
    """Also work on a task whose check can be passed without doing its work; the report says so."""
    search: SearchSettings | None = None
    """Search the design graph with these settings; None: the closed loop, or what the run did."""
    use_memory: bool = True
    """A graph search starts from what worked on earlier tasks, and adds to it; a replay does
    neither."""
    models: Models | None = None
    """Models that fill roles; None: those that the run had."""
    port_from: Path | None = None
    """For a new run: the folder of a run of the same task for another target, whose accepted
    designs are judged anew for this one before anything else."""
    record: Path | None = None
    """Also write what models were asked and answered to this file."""


def start_run(
    session: Session, task: Task, budget: Budget, options: RunOptions | None = None
) -> tuple[RunReport, Path]:
    """A new run of `task`, driven to its end. Returns the report and the run's folder.

    Raises TaskError, before any run file is made, when the task cannot be judged or when its
    check can be passed without doing its work (unless `options.allow_weak`). UsageError when
    nothing of `options.port_from` can be ported.
    """
    options = options or RunOptions()
    models = options.models or Models()
    _check_budget(budget)
    check_models(models, options.record)
    warm_models(models)
    if options.port_from is not None:
        portable(options.port_from, task, session.target)
    prepared = _prepare(session, task, options)
    if not options.allow_weak:
        require_sound(task.name, prepared.lint)
    mode = "graph" if options.search is not None else "auto"
    with create_run(session, task, budget, mode, models, options.port_from) as run:
        run.step("prepared", Prepared, lambda: prepared)
        return _drive(session, run, budget, options), run.folder


def create_run(
    session: Session,
    task: Task,
    budget: Budget,
    mode: str,
    models: Models | None = None,
    port_from: Path | None = None,
) -> RunFile:
    """The file of a new run, driven by this process. Raises UsageError for an empty budget."""
    _check_budget(budget)
    name = _run_name(task, session.target.name)
    header = RunHeader(
        run=name,
        task=task,
        target=session.target.name,
        mode=mode,
        budget=budget,
        versions=session.judge.versions,
        created=time.time(),
        options={"sandbox": session.executor.sandbox}
        | ({MODELS: msgspec.to_builtins(models)} if models is not None and models.wanted else {})
        | ({FROM: str(port_from.resolve())} if port_from is not None else {}),
    )
    return RunFile.create(session.settings.runs_path / name, header)


def resume_run(
    session: Session, folder: Path, budget: Budget | None = None, options: RunOptions | None = None
) -> RunReport:
    """Goes on with a run where it stopped; what was spent stays spent.

    `budget` replaces the run's budget from now on, `options.models` its models. Raises UsageError
    when the run was made with another compiler, whose times must not be mixed with this one's.
    """
    options = options or RunOptions()
    with RunFile.resume(folder) as run:
        check_versions(session, run.header)
        if options.models is not None:
            check_models(options.models, options.record)
            change_models(run, options.models)
        if budget is not None:
            _check_budget(budget)
            run.event("budget", budget=msgspec.to_builtins(budget))
        return _drive(session, run, current_budget(run), options)


def check_versions(session: Session, header: RunHeader) -> None:
    """Raises UsageError when a run was made with another compiler than the workers have."""
    if header.versions != session.judge.versions:
        raise UsageError(
            f"run {header.run} was made with {_versions(header.versions)}; the workers have "
            f"{_versions(session.judge.versions)}",
            "start a new run, or point worker_python at an environment with the old versions, and "
            "`calibration` at the old file (or `off`) where the clock differs",
        )


def reopen(folder: Path) -> RunReport | None:
    """The report of a finished run, None when it has not finished."""
    with RunFile.read(folder) as run:
        done = [event for event in run.events() if event.kind == "finished"]
    path = folder / BUNDLE / "report.json"
    if not done or not path.is_file():
        return None
    return msgspec.json.decode(path.read_bytes(), type=RunReport)


def current_budget(run: RunFile) -> Budget:
    """The budget in force: the last one given."""
    given = [event.body["budget"] for event in run.events() if event.kind == "budget"]
    return msgspec.convert(given[-1], Budget) if given else run.header.budget


def _drive(session: Session, run: RunFile, budget: Budget, options: RunOptions) -> RunReport:
    task = run.header.task
    prepared = run.step("prepared", Prepared, lambda: _prepare(session, task, options))
    bring(run, session.target)
    options.progress.prepared(prepared)
    watcher, record = options.progress, options.record
    with staffed(session, run, prepared, budget, options.team, watcher, record) as team:
        prepared = _with_cases(run, team, prepared)
        context = Context(
            run=run,
            judge=session.judge,
            prepared=prepared,
            team=team,
            budget=budget,
            workers=session.settings.workers,
            progress=options.progress,
            stopping=stop_ear(run),
        )
        finish = _search(session, context, options)
    report = build_report(run, session.judge, prepared, finish)
    write_bundle(run.folder / BUNDLE, report, task, prepared, _winner(finish))
    if finish.reason != "stopped":
        run.event("finished", outcome=finish.outcome, reason=finish.reason)
    return report


def _with_cases(run: RunFile, team: Team, prepared: Prepared) -> Prepared:
    """The task with the hard inputs that a tester thought of, once per run."""
    found = run.recall(CASES, tuple[InputCase, ...])
    if found is None and team.tester is not None:
        try:
            found = team.tester.cases(prepared.info, prepared.target)
            run.remember(CASES, found)
        except (NoAnswer, EnvironmentFault) as error:
            run.event("no answer", role="tester", message=error.message)
    return msgspec.structs.replace(prepared, cases=found or ())


def _search(session: Session, context: Context, options: RunOptions) -> Finish:
    settings = options.search or context.run.recall(SETTINGS, SearchSettings)
    if settings is None:
        return run_auto(context)
    remembers = options.use_memory and not models_in_force(context.run).replay
    with open_memory(session.settings.cache_path, remembers) as memory:
        return run_graph(context, settings, memory)


def _prepare(session: Session, task: Task, options: RunOptions) -> Prepared:
    return session.judge.prepare(task, lambda stage: options.progress.stage(stage, None))


def _winner(finish: Finish) -> Candidate | None:
    if finish.outcome not in WON or finish.best is None:
        return None
    return finish.best.evaluation.candidate


def _run_name(task: Task, target: str) -> str:
    safe = re.sub(r"[^A-Za-z0-9_-]+", "-", task.name).strip("-") or "task"
    stamp = time.strftime("%Y%m%d-%H%M%S")
    return f"{safe}-{target}-{stamp}-{secrets.token_hex(2)}"


def _check_budget(budget: Budget) -> None:
    if budget.candidates < 1:
        raise UsageError(f"the budget allows {budget.candidates} candidates; it needs at least 1")
    if budget.seconds is not None and budget.seconds <= 0:
        raise UsageError(f"the budget allows {budget.seconds:g} seconds; it needs more than 0")


def _versions(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())
