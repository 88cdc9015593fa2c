"""What `maxkernel bench jaxbench` and `bench models` do."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec
from rich.table import Table
from rich.text import Text

from maxkernel import config
from maxkernel.api import open_session
from maxkernel.api.team import Models
from maxkernel.bench import BenchResult, Method, Settings, render, run_bench, summarise, words
from maxkernel.cli import models as llm
from maxkernel.cli import tables
from maxkernel.cli.bench_progress import BenchLines
from maxkernel.cli.commands import print_json
from maxkernel.cli.flags import Flags
from maxkernel.cli.graph import settings_of
from maxkernel.errors import MaxkernelError, UsageError
from maxkernel.search.settings import SearchSettings
from maxkernel.suites import Suite, entry, names
from maxkernel.targets import get_target

BUILTIN = "builtin"
EXIT_INTERRUPTED = 130


@dataclass(frozen=True)
class Search:
    """How kernels are found."""

    team: list[str]
    """Notations of models; none, or `builtin` alone, is the built-in team."""
    mode: str
    policy: str | None
    seed: int
    kernels: str
    """Folder of kernels that are judged instead."""


@dataclass(frozen=True)
class Limits:
    """Per task."""

    candidates: int
    seconds: float
    task_seconds: float
    patience: int
    models: llm.Limits


@dataclass(frozen=True)
class Output:
    """How the command works and prints."""

    flags: Flags
    markdown: bool
    html: str
    rerun: bool
    at_once: int


class Interrupted(MaxkernelError):
    """Ctrl-C; the finished rows are kept."""

    exit_status = EXIT_INTERRUPTED


def run(
    suite: Suite,
    tasks: str,
    edition: str,
    target: str,
    search: Search,
    limits: Limits,
    output: Output,
) -> int:
    """Exit status 0 when every task has a row, whatever the rows say."""
    wanted = [part for part in tasks.split(",") if part.strip()]
    chosen = [entry(suite, part).name for part in wanted] or list(names(suite))
    method = method_of(suite, edition, target, search, limits, chosen)
    _check(limits, output)
    quiet = output.flags.as_json
    settings, shared = method.settings, shared_limits(config.load_settings(), output.at_once)
    with open_session(target, settings=shared, unsafe_no_sandbox=output.flags.unsafe) as session:
        name = f"bench-{suite}-{settings.target}-{settings.digest}"
        folder = session.settings.runs_path / name
        if output.rerun and folder.exists():
            folder.rename(folder.with_name(f"{name}-before-{time.strftime('%Y%m%d-%H%M%S')}"))
        with BenchLines(len(chosen), quiet=quiet) as progress:
            try:
                result = run_bench(
                    session, chosen, method, folder, at_once=output.at_once, progress=progress
                )
            except KeyboardInterrupt:
                raise Interrupted(
                    f"interrupted; finished rows are kept in {folder}",
                    "the same command goes on where it stopped",
                ) from None
    _print(result, folder, output)
    return 0


def shared_limits(settings: config.Settings, at_once: int) -> config.Settings:
    """The settings' limits are for a stage that has the machine to itself; tasks in flight share
    it, so each gets as many times longer."""
    return msgspec.structs.replace(
        settings,
        capture_seconds=settings.capture_seconds * at_once,
        compile_seconds=settings.compile_seconds * at_once,
        check_seconds=settings.check_seconds * at_once,
        trace_seconds=settings.trace_seconds * at_once,
    )


def method_of(
    suite: str, edition: str, target: str, search: Search, limits: Limits, chosen: list[str]
) -> Method:
    """How the command's options have every task worked on. Raises UsageError for bad ones."""
    given = _kernels(search.kernels, chosen) if search.kernels else None
    graph = settings_of(search.mode, search.policy, search.seed)
    team = search.team
    models = llm.chosen({"default": team}, limits.models)[0] if given is None else Models()
    text = "".join(f"{k}\0{v}\0" for k, v in sorted((given or {}).items()))
    settings = Settings(
        suite=suite,
        edition=edition,
        target=get_target(target).name,
        team=", ".join(team) or BUILTIN if given is None else "given kernels",
        mode=search.mode if given is None else "judge",
        candidates=limits.candidates,
        seconds=limits.seconds,
        kernels=hashlib.sha256(text.encode()).hexdigest()[:16] if given is not None else "",
        patience=limits.patience,
        task_seconds=limits.task_seconds,
        policy=graph.policy if graph is not None else "",
        seed=graph.seed if graph is not None else 0,
        max_cost=limits.models.cost,
        max_tokens=limits.models.tokens,
        max_requests=limits.models.requests,
    )
    return Method(settings, models=models, search=_search(graph, given), kernels=given)


def _search(graph: SearchSettings | None, given: dict[str, str] | None) -> SearchSettings | None:
    if graph is not None and given is not None:
        raise UsageError("--kernels judges what is there and searches nothing", "drop --mode")
    return graph


def _check(limits: Limits, output: Output) -> None:
    for option, value in (
        ("--budget-candidates", limits.candidates),
        ("--budget-seconds", limits.seconds),
        ("--task-seconds", limits.task_seconds),
        ("--at-once", output.at_once),
    ):
        if value <= 0:
            raise UsageError(f"{option} is {value:g}; it must be more than 0")
    if output.html and not Path(output.html).absolute().parent.is_dir():
        raise UsageError(f"cannot write {output.html}: its folder does not exist")


def _print(result: BenchResult, folder: Path, output: Output) -> None:
    if output.html:
        Path(output.html).write_text(render.render_html(result), encoding="utf-8")
    if output.flags.as_json:
        body = {"result": result, "summary": summarise(result.rows), "folder": str(folder)}
        print_json(body | {"exit_status": 0})
        return
    if output.markdown:
        print(render.render_markdown(result), end="")
        return
    table = Table(title=words.title_of(result))
    for head in render.SHORT_HEAD:
        table.add_column(head, overflow="fold")
    for row in result.rows:
        table.add_row(*(Text(tables.printable(cell)) for cell in render.short_cells(row)))
    tables.console.print(table)
    for task, why in words.failure_lines(result):
        tables.console.print(Text(tables.printable(f"{task}: {why}")))
    for line in (*words.summary_lines(result), *words.provenance_lines(result)):
        tables.console.print(Text(line))
    kept = f"kept in {folder}; `maxkernel bench compare A B` compares two such folders"
    tables.console.print(Text(kept))


def _kernels(folder: str, chosen: list[str]) -> dict[str, str]:
    found = {
        path.stem: path.read_text(encoding="utf-8")
        for path in sorted(Path(folder).glob("*.py"))
        if path.stem in chosen
    }
    if not found:
        raise UsageError(
            f"no kernel in {folder} is named after a task of the suite",
            f"name the files after the tasks, for example {chosen[0]}.py",
        )
    return found
