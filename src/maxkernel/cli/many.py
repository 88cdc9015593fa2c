"""`maxkernel search-many`: one budget for a folder of tasks."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
from rich.table import Table
from rich.text import Text

from maxkernel.api import RunOptions, Session, load_task, open_session
from maxkernel.api.many import ManyResult, OnChange, resume_many, search_many
from maxkernel.api.many_record import ManyRecord, find_many, load
from maxkernel.cli import tables
from maxkernel.cli.commands import print_json
from maxkernel.cli.flags import Flags
from maxkernel.config import load_settings
from maxkernel.errors import EXIT_ACCEPTED, EXIT_REFUSED, UsageError
from maxkernel.report import quote_baseline, quote_time
from maxkernel.search.settings import SearchSettings
from maxkernel.types import Budget

CANDIDATES = 200
"""Evaluations of a search that is given no limit."""


class Limits(NamedTuple):
    """What the user said about the budget; None: nothing."""

    candidates: int | None
    seconds: float | None


def run_search_many(
    folder: str, target: str, limits: Limits, flags: Flags, settings: SearchSettings | None
) -> int:
    """Exit status 0 when at least one task gets a faster kernel."""
    files = sorted(path for path in Path(folder).glob("*.py") if not path.name.startswith("_"))
    if not files:
        raise UsageError(f"no task files in {folder}", "give a folder with one .py file per task")
    budget = _budget(Budget(candidates=CANDIDATES), limits, len(files))
    tasks = [load_task(path) for path in files]
    options = RunOptions(allow_weak=flags.allow_weak, search=settings, use_memory=flags.use_memory)
    with _session(target, flags, len(tasks)) as (session, watch):
        results = search_many(session, tasks, budget, options, watch)
    return _finish(results, flags.as_json)


def run_resume_many(name: str, limits: Limits, flags: Flags) -> int:
    """The same, for a search that stopped or was killed."""
    folder = find_many(load_settings().runs_path, name)
    record = load(folder)
    budget = _budget(record.budget, limits, len(record.tasks))
    with _session(record.target, flags, len(record.tasks)) as (session, watch):
        results = resume_many(session, folder, budget, RunOptions(), watch)
    return _finish(results, flags.as_json)


def _budget(budget: Budget, limits: Limits, tasks: int) -> Budget:
    candidates = budget.candidates if limits.candidates is None else limits.candidates
    seconds = budget.seconds if limits.seconds is None else limits.seconds
    if candidates < tasks:
        raise UsageError(
            f"{candidates} candidates are too few for {tasks} tasks",
            f"--budget-candidates {8 * tasks} gives each task one round",
        )
    if seconds is not None and seconds <= 0:
        raise UsageError(f"the budget allows {seconds:g} seconds; it needs more than 0")
    return msgspec.structs.replace(budget, candidates=candidates, seconds=seconds)


@contextmanager
def _session(target: str, flags: Flags, tasks: int) -> Generator[tuple[Session, OnChange]]:
    words = f"searching for {tasks} tasks"
    with (
        open_session(target, unsafe_no_sandbox=flags.unsafe, use_cache=flags.use_cache) as session,
        tables.status(words, quiet=flags.as_json) as say,
    ):
        yield session, _watcher(words, say)


def _watcher(words: str, say: Callable[[str], None]) -> OnChange:
    """Tells how far a search is, and by which name it goes on after a stop."""

    def watch(folder: Path, record: ManyRecord) -> None:
        spent = {s.task: s.spent for s in record.slices}
        say(
            f"{words}: {sum(spent.values())} of {record.budget.candidates} evaluations; after a "
            f"stop, `maxkernel search-many --resume {folder.name}` goes on"
        )

    return watch


def _finish(results: list[ManyResult], as_json: bool) -> int:
    won = any(r.report is not None and r.report.won for r in results)
    status = EXIT_ACCEPTED if won else EXIT_REFUSED
    if as_json:
        body = [
            {"task": r.task, "evaluations": r.evaluations, "problem": r.problem}
            | {"report": msgspec.to_builtins(r.report), "folder": str(r.folder or "")}
            for r in results
        ]
        print_json({"tasks": body, "exit_status": status})
    else:
        _print(results)
    return status


def _print(results: list[ManyResult]) -> None:
    table = Table()
    for head in ("task", "candidates", "XLA", "best kernel", "speedup", "outcome"):
        table.add_column(head, overflow="fold")
    for result in results:
        report = result.report
        if report is None:
            table.add_row(result.task, "0", "-", "-", "-", Text(result.problem))
            continue
        table.add_row(
            result.task,
            str(result.evaluations),
            quote_baseline(report),
            quote_time(report.best),
            f"{report.speedup:.2f}x" if report.speedup else "-",
            f"{report.outcome} ({report.reason})",
        )
    tables.console.print(table)
