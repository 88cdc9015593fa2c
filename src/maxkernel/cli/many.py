"""`maxkernel search-many`: one budget for a folder of tasks."""

from __future__ import annotations

from pathlib import Path

import msgspec
from rich.table import Table
from rich.text import Text

from maxkernel.api import RunOptions, load_task, open_session
from maxkernel.api.many import ManyResult, search_many
from maxkernel.cli import tables
from maxkernel.cli.commands import print_json
from maxkernel.cli.flags import Flags
from maxkernel.errors import EXIT_ACCEPTED, EXIT_REFUSED, UsageError
from maxkernel.report import quote_time
from maxkernel.search.settings import SearchSettings
from maxkernel.types import Budget


def run_search_many(
    folder: str, target: str, candidates: int, flags: Flags, settings: SearchSettings | None
) -> int:
    """Exit status 0 when at least one task gets a faster kernel."""
    files = sorted(path for path in Path(folder).glob("*.py") if not path.name.startswith("_"))
    if not files:
        raise UsageError(f"no task files in {folder}", "give a folder with one .py file per task")
    if candidates < len(files):
        raise UsageError(
            f"{candidates} candidates are too few for {len(files)} tasks",
            f"--budget-candidates {8 * len(files)} gives each task one round",
        )
    tasks = [load_task(path) for path in files]
    options = RunOptions(allow_weak=flags.allow_weak, search=settings, use_memory=flags.use_memory)
    with (
        open_session(target, unsafe_no_sandbox=flags.unsafe, use_cache=flags.use_cache) as session,
        tables.status(f"searching for {len(tasks)} tasks", quiet=flags.as_json),
    ):
        results = search_many(session, tasks, Budget(candidates=candidates), options)
    won = any(r.report is not None and r.report.outcome == "faster" for r in results)
    status = EXIT_ACCEPTED if won else EXIT_REFUSED
    if flags.as_json:
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
            quote_time(report.baseline),
            quote_time(report.best),
            f"{report.speedup:.2f}x" if report.speedup else "-",
            f"{report.outcome} ({report.reason})",
        )
    tables.console.print(table)
