"""Commands that judge: optimize, judge, resume."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import msgspec

from maxkernel.api import (
    RunOptions,
    Session,
    load_task,
    open_session,
    reopen,
    resume_run,
    start_run,
)
from maxkernel.api.calls import read_kernel
from maxkernel.api.runs import BUNDLE, current_budget
from maxkernel.api.team import Models, models_in_force
from maxkernel.cli import tables
from maxkernel.cli.checklist import print_checklist
from maxkernel.cli.flags import Flags
from maxkernel.cli.models import Changes, changed
from maxkernel.cli.progress import LiveProgress
from maxkernel.config import load_settings
from maxkernel.errors import EXIT_ACCEPTED, EXIT_REFUSED, UsageError
from maxkernel.judge import Prepared, checklist, read_source, require_sound
from maxkernel.report import RunReport
from maxkernel.search.porting import portable
from maxkernel.search.settings import SearchSettings
from maxkernel.store import RunFile, find_run
from maxkernel.targets import get_target
from maxkernel.types import Budget, Candidate, Failure, Task, Tunable, Verdict


def run_optimize(
    task: str,
    target: str,
    budget: Budget,
    flags: Flags,
    search: SearchSettings | None = None,
    models: Models | None = None,
    record: Path | None = None,
    port_from: str | None = None,
) -> int:
    """`maxkernel optimize`: exit status 0 when a faster kernel is handed back.

    With `search`, in graph mode; `record` is where the models' traffic is also written;
    `port_from` names a run for another target.
    """
    loaded, known = load_task(task), get_target(target)
    source = find_run(load_settings().runs_path, port_from) if port_from is not None else None
    if source is not None:
        portable(source, loaded, known)
    with (
        open_session(target, unsafe_no_sandbox=flags.unsafe, use_cache=flags.use_cache) as session,
        LiveProgress(loaded.name, target, budget, quiet=flags.as_json) as progress,
    ):
        options = RunOptions(
            progress=progress,
            allow_weak=flags.allow_weak,
            search=search,
            use_memory=flags.use_memory,
            models=models,
            port_from=source,
            record=record,
        )
        report, folder = start_run(session, loaded, budget, options)
    return _finish(report, folder, flags.as_json)


def run_resume(
    name: str,
    candidates: int | None,
    seconds: float | None,
    flags: Flags,
    search: SearchSettings | None = None,
    changes: Changes | None = None,
) -> int:
    """`maxkernel resume`: a finished run is shown unless its budget, mode or models change."""
    changes = changes or Changes()
    folder = find_run(load_settings().runs_path, name)
    with RunFile.read(folder) as run:
        header, budget, models = run.header, current_budget(run), models_in_force(run)
    done = reopen(folder)
    same = candidates is None and seconds is None and search is None and not changes.any
    if done is not None and same:
        return _finish(done, folder, flags.as_json)
    new_models, record = changed(models, changes)
    grown = msgspec.structs.replace(
        budget,
        candidates=budget.candidates if candidates is None else candidates,
        seconds=budget.seconds if seconds is None else seconds,
    )
    with (
        open_session(header.target, unsafe_no_sandbox=flags.unsafe) as session,
        LiveProgress(header.task.name, header.target, grown, quiet=flags.as_json) as progress,
    ):
        options = RunOptions(
            progress=progress,
            search=search,
            use_memory=flags.use_memory,
            models=new_models,
            record=record,
        )
        report = resume_run(session, folder, grown if grown != budget else None, options)
    return _finish(report, folder, flags.as_json)


def run_judge(
    task: str,
    kernel: str,
    target: str,
    tunables: list[str],
    flags: Flags,
    quick: bool = False,
) -> int:
    """`maxkernel judge`: exit status 0 when the kernel is accepted, faster or not.

    A `quick` judgement leaves out what only winners of a search go through, but for a kernel whose
    full-size program is another one than the checked one.
    """
    loaded = load_task(task)
    candidate = candidate_of(kernel, tunables)
    with open_session(target, unsafe_no_sandbox=flags.unsafe, use_cache=flags.use_cache) as session:
        prepared, verdict = _verdict(session, loaded, candidate, flags)
        evaluation = verdict.evaluation
        differs = evaluation.numerics is not None and evaluation.numerics.differences
        confirmation = None
        if evaluation.accepted and (differs or not quick):
            with tables.status("confirming", quiet=flags.as_json):
                confirmation = session.judge.confirm(prepared, candidate)
    failed = confirmation is not None and confirmation.failure is not None
    status = EXIT_ACCEPTED if evaluation.accepted and not failed else EXIT_REFUSED
    items = () if failed else checklist(prepared, evaluation, confirmation)
    if flags.as_json:
        more = {"confirmation": confirmation, "checklist": items, "exit_status": status}
        print_json(msgspec.to_builtins(verdict) | more)
    else:
        tables.print_verdict(prepared, verdict)
        print_checklist(items, confirmation)
    return status


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    print(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def _verdict(
    session: Session, task: Task, candidate: Candidate, flags: Flags
) -> tuple[Prepared, Verdict]:
    with tables.status("preparing", quiet=flags.as_json) as say:
        prepared = session.judge.prepare(task, say)
        if not flags.allow_weak:
            require_sound(task.name, prepared.lint)
        evaluation = session.judge.evaluate(prepared, candidate, say)
        return prepared, session.judge.verdict(prepared, evaluation)


def _finish(report: RunReport, folder: Path, as_json: bool) -> int:
    status = EXIT_ACCEPTED if report.won else EXIT_REFUSED
    bundle = folder / BUNDLE
    if as_json:
        print_json(msgspec.to_builtins(report) | {"bundle": str(bundle), "exit_status": status})
    else:
        tables.print_report(report, bundle)
    return status


def candidate_of(kernel: str, tunables: list[str]) -> Candidate:
    """A kernel's file with some of its tunables given as NAME=VALUE. Raises UsageError."""
    source = read_kernel(Path(kernel))
    space = read_source(source)
    given = dict(_tunable(text) for text in tunables)
    if not isinstance(space, Failure):
        unknown = sorted(set(given) - set(space))
        if unknown:
            raise UsageError(
                f"{kernel} declares no tunable {unknown[0]!r}; it has {', '.join(space) or 'none'}"
            )
    return Candidate(source, given)


def _tunable(text: str) -> tuple[str, Tunable]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise UsageError(f"--tunable {text!r}: expected NAME=VALUE, for example block_rows=256")
    try:
        parsed = ast.literal_eval(value)
    except (ValueError, SyntaxError):
        parsed = value
    if not isinstance(parsed, int | float | bool | str):
        raise UsageError(f"--tunable {text!r}: the value must be a number, bool or string")
    return name, parsed
