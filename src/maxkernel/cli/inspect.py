"""Commands that only read run files: runs, show."""

from __future__ import annotations

import time

import msgspec
from rich.table import Table
from rich.text import Text

from maxkernel.api import reopen
from maxkernel.api.runs import BUNDLE
from maxkernel.cli import tables
from maxkernel.cli.commands import print_json
from maxkernel.config import load_settings
from maxkernel.engineers.llm import calls_of, readable
from maxkernel.errors import EXIT_ACCEPTED, UsageError
from maxkernel.report import describe_use, model_use, quote_time
from maxkernel.store import RunFile, find_run, list_runs


def list_all(as_json: bool) -> int:
    """`maxkernel runs`."""
    root = load_settings().runs_path
    found = list_runs(root)
    if as_json:
        print_json({"runs": found, "exit_status": EXIT_ACCEPTED})
        return EXIT_ACCEPTED
    if not found:
        tables.console.print(f"no runs in {root}; `maxkernel optimize TASK` makes one")
        return EXIT_ACCEPTED
    table = Table()
    for head in ("run", "state", "outcome", "candidates", "best", "started"):
        table.add_column(head, overflow="fold")
    for run in found:
        best = f"{run.best_seconds * 1e3:.4g} ms" if run.best_seconds else "-"
        started = time.strftime("%Y-%m-%d %H:%M", time.localtime(run.created))
        table.add_row(run.run, run.state, run.outcome or "-", str(run.evaluations), best, started)
    tables.console.print(table)
    return EXIT_ACCEPTED


def show_run(name: str, source: int | None, events: bool, as_json: bool) -> int:
    """`maxkernel show`."""
    folder = find_run(load_settings().runs_path, name)
    with RunFile.read(folder) as run:
        if source is not None:
            _print_source(run, source)
        elif events:
            for event in run.events():
                print(msgspec.json.encode(event).decode())
        elif as_json:
            report = reopen(folder)
            print_json(
                {"run": run.header.run, "folder": str(folder), "report": report}
                | {"designs": run.designs(), "exit_status": EXIT_ACCEPTED}
            )
        else:
            _print_run(run)
    return EXIT_ACCEPTED


def show_calls(name: str, as_json: bool) -> int:
    """`maxkernel show --calls`: every question to a model and its answer, oldest first."""
    folder = find_run(load_settings().runs_path, name)
    with RunFile.read(folder) as run:
        calls, used = calls_of(run), model_use(run)
    if as_json:
        print_json({"calls": calls, "models": used, "exit_status": EXIT_ACCEPTED})
        return EXIT_ACCEPTED
    for call in calls:
        print(tables.printable(readable(call)), end="\n\n")
    lines = [describe_use(use) for use in used]
    print("\n".join(lines) if lines else "no model was asked")
    return EXIT_ACCEPTED


def _print_source(run: RunFile, design: int) -> None:
    for found in run.designs():
        if found.id == design:
            print(found.source, end="")
            return
    known = ", ".join(str(d.id) for d in run.designs()) or "none"
    raise UsageError(f"run {run.header.run} has no design {design}; it has {known}")


def _print_run(run: RunFile) -> None:
    report = reopen(run.folder)
    if report is not None:
        tables.print_report(report, run.folder / BUNDLE)
    header = run.header
    table = Table(title=f"{header.run}: every candidate")
    for head in ("design", "how", "tunables", "time", "fate"):
        table.add_column(head, overflow="fold")
    designs = {design.id: design for design in run.designs()}
    for number, evaluation in run.evaluations():
        design, failure = designs[number], evaluation.failure
        fate = f"{failure.stage}/{failure.kind}: {failure.message}" if failure else "accepted"
        tunables = ", ".join(f"{k}={v}" for k, v in evaluation.candidate.tunables.items())
        table.add_row(
            str(number),
            Text(f"{design.move}: {design.plan.strategy}"),
            tunables or "defaults",
            quote_time(evaluation.time),
            Text(fate.splitlines()[0][:200]),
        )
    tables.console.print(table)
    if report is None:
        tables.console.print(f"not finished; `maxkernel resume {header.run}` goes on")
