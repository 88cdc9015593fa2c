"""`maxkernel bench`: run a suite, judge kernels made elsewhere, compare two tables."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from maxkernel.cli.flags import Flags

if TYPE_CHECKING:
    from maxkernel.bench import BenchResult

bench = typer.Typer(
    help="Run a suite and print its table.", rich_markup_mode=None, no_args_is_help=False
)

Tasks = Annotated[str, typer.Option("--tasks", help="Some tasks only: 8p,12p or full names.")]
Edition = Annotated[str, typer.Option("--edition", help="hardened, published or f32.")]
TargetOption = Annotated[str, typer.Option("--target", help="TPU generation.")]
Candidates = Annotated[int, typer.Option(help="Kernels per task at most.")]
Seconds = Annotated[float, typer.Option(help="Seconds per task at most.")]
Kernels = Annotated[
    str, typer.Option("--kernels", help="Judge DIR/<task>.py instead of searching.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the table as JSON.")]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print the table as Markdown.")]
Html = Annotated[str, typer.Option("--html", help="Also write the table to this HTML file.")]
Rerun = Annotated[bool, typer.Option("--rerun", help="Forget finished rows of earlier runs.")]
Unsafe = Annotated[bool, typer.Option("--unsafe-no-sandbox", help="See `optimize`.")]


@bench.command()
def jaxbench(
    tasks: Tasks = "",
    edition: Edition = "hardened",
    target: TargetOption = "v6e",
    budget_candidates: Candidates = 16,
    budget_seconds: Seconds = 600.0,
    kernels: Kernels = "",
    as_json: JsonOption = False,
    markdown: Markdown = False,
    html: Html = "",
    rerun: Rerun = False,
    unsafe_no_sandbox: Unsafe = False,
) -> int:
    """The fifty JaxBench tasks."""
    flags = Flags(as_json, unsafe_no_sandbox)
    limits = (budget_candidates, budget_seconds)
    return _run("jaxbench", tasks, edition, target, limits, kernels, flags, markdown, html, rerun)


@bench.command()
def models(
    tasks: Tasks = "",
    target: TargetOption = "v6e",
    budget_candidates: Candidates = 16,
    budget_seconds: Seconds = 600.0,
    kernels: Kernels = "",
    as_json: JsonOption = False,
    markdown: Markdown = False,
    html: Html = "",
    rerun: Rerun = False,
    unsafe_no_sandbox: Unsafe = False,
) -> int:
    """Twenty-four workloads of current open models."""
    flags = Flags(as_json, unsafe_no_sandbox)
    limits = (budget_candidates, budget_seconds)
    return _run("models", tasks, "hardened", target, limits, kernels, flags, markdown, html, rerun)


@bench.command()
def compare(
    before: Annotated[str, typer.Argument(metavar="A", help="Folder or bench.json.")],
    after: Annotated[str, typer.Argument(metavar="B", help="Folder or bench.json.")],
    as_json: JsonOption = False,
) -> int:
    """What changed between two tables, and whether it is beyond noise."""
    from rich.table import Table

    from maxkernel.bench import compare as changes_of
    from maxkernel.bench import load_result
    from maxkernel.cli import tables
    from maxkernel.cli.commands import print_json
    from maxkernel.report import quote_time

    changes = changes_of(load_result(before), load_result(after))
    if as_json:
        print_json({"changes": changes, "exit_status": 0})
        return 0
    table = Table()
    for head in ("task", "before", "after", "ratio", "change"):
        table.add_column(head)
    for change in changes:
        ratio = f"{change.ratio:.3f}x" if change.ratio else "-"
        best = (quote_time(change.before.best), quote_time(change.after.best))
        table.add_row(change.task, *best, ratio, change.word)
    tables.console.print(table)
    return 0


def _run(
    suite: str,
    tasks: str,
    edition: str,
    target: str,
    limits: tuple[int, float],
    kernels: str,
    flags: Flags,
    markdown: bool,
    html: str,
    rerun: bool,
) -> int:
    from maxkernel import bench as benchmark
    from maxkernel.api import open_session
    from maxkernel.bench import render
    from maxkernel.cli.bench_progress import BenchLines
    from maxkernel.cli.commands import print_json
    from maxkernel.targets import get_target

    names = _names(suite, tasks)
    given = _kernels(kernels, names) if kernels else None
    text = "".join(f"{k}\0{v}\0" for k, v in sorted((given or {}).items()))
    settings = benchmark.Settings(
        suite=suite,
        edition=edition,
        target=get_target(target).name,
        team="builtin" if given is None else "given kernels",
        mode="auto" if given is None else "judge",
        candidates=limits[0],
        seconds=limits[1],
        kernels=hashlib.sha256(text.encode()).hexdigest()[:16] if given is not None else "",
    )
    with open_session(target, unsafe_no_sandbox=flags.unsafe) as session:
        name = f"bench-{suite}-{settings.target}-{settings.digest}"
        folder = session.settings.runs_path / name
        if rerun and folder.exists():
            folder.rename(folder.with_name(f"{name}-before-{time.strftime('%Y%m%d-%H%M%S')}"))
        result = benchmark.run_bench(
            session,
            names,
            settings,
            folder,
            kernels=given,
            progress=BenchLines(len(names), quiet=flags.as_json),
        )
    if html:
        Path(html).write_text(render.render_html(result), encoding="utf-8")
    if flags.as_json:
        print_json(
            {"result": result, "summary": benchmark.summarise(result.rows), "exit_status": 0}
        )
    elif markdown:
        print(render.render_markdown(result), end="")
    else:
        _print(result, folder)
    return 0


def _print(result: BenchResult, folder: Path) -> None:
    from rich.table import Table
    from rich.text import Text

    from maxkernel.bench import render
    from maxkernel.cli.tables import console

    table = Table()
    for head in render.HEAD:
        table.add_column(head, overflow="fold")
    for row in result.rows:
        table.add_row(*(Text(cell) for cell in render.cells(row)))
    console.print(table)
    console.print(render.summary_line(result))
    console.print(render.provenance_line(result))
    console.print(f"kept in {folder}; `maxkernel bench compare A B` compares two such folders")


def _names(suite: str, tasks: str) -> list[str]:
    from maxkernel.suites import Suite, entry, names

    which: Suite = "jaxbench" if suite == "jaxbench" else "models"
    wanted = [part for part in tasks.split(",") if part.strip()]
    return [entry(which, part).name for part in wanted] or list(names(which))


def _kernels(folder: str, names: list[str]) -> dict[str, str]:
    from maxkernel.errors import UsageError

    found = {
        path.stem: path.read_text(encoding="utf-8")
        for path in sorted(Path(folder).glob("*.py"))
        if path.stem in names
    }
    if not found:
        raise UsageError(
            f"no kernel in {folder} is named after a task of the suite",
            f"name the files after the tasks, for example {names[0]}.py",
        )
    return found
