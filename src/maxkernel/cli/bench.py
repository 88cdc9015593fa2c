"""`maxkernel bench`: run a suite, judge kernels made elsewhere, compare two tables."""

from __future__ import annotations

from typing import Annotated

import typer

from maxkernel.cli import models as llm
from maxkernel.cli.flags import Flags
from maxkernel.cli.graph import Mode, Policy, Seed
from maxkernel.cli.optimize import Candidates, Patience
from maxkernel.cli.options import Json, Target, Unsafe

bench = typer.Typer(
    help="Run a suite and print its table.", rich_markup_mode=None, no_args_is_help=False
)

Tasks = Annotated[str, typer.Option("--tasks", help="Some tasks only: 8p,12p or full names.")]
Edition = Annotated[str, typer.Option("--edition", help="hardened, published or f32.")]
Team = Annotated[
    list[str] | None,
    typer.Option("--team", metavar="MODEL", help="builtin, or a model as `optimize --model`."),
]
Seconds = Annotated[
    float,
    typer.Option("--budget-seconds", "--max-time", help="Seconds of search per task at most."),
]
TaskSeconds = Annotated[
    float,
    typer.Option("--task-seconds", help="Seconds per task at most, baseline and expert included."),
]
Kernels = Annotated[
    str, typer.Option("--kernels", metavar="DIR", help="Judge DIR/<task>.py, search nothing.")
]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print the table as Markdown.")]
Html = Annotated[
    str, typer.Option("--html", metavar="FILE", help="Also write the table as one page.")
]
AtOnce = Annotated[int, typer.Option("--at-once", help="Tasks in flight.")]
Rerun = Annotated[
    bool, typer.Option("--rerun", help="Set earlier rows aside and make all of them anew.")
]


@bench.command("jaxbench")
def jaxbench_command(
    tasks: Tasks = "",
    edition: Edition = "hardened",
    target: Target = "v6e",
    team: Team = None,
    mode: Mode = "auto",
    policy: Policy = None,
    seed: Seed = 0,
    budget_candidates: Candidates = 16,
    budget_seconds: Seconds = 600.0,
    task_seconds: TaskSeconds = 1800.0,
    patience: Patience = 3,
    max_cost: llm.MaxCost = None,
    max_tokens: llm.MaxTokens = None,
    max_requests: llm.MaxRequests = None,
    kernels: Kernels = "",
    at_once: AtOnce = 2,
    as_json: Json = False,
    markdown: Markdown = False,
    html: Html = "",
    rerun: Rerun = False,
    unsafe_no_sandbox: Unsafe = False,
) -> int:
    """The fifty JaxBench tasks. Limits are per task; the same command goes on where it stopped."""
    from maxkernel.cli.bench_run import Limits, Output, Search, run

    search = Search(team or [], mode, policy, seed, kernels)
    models = llm.Limits(max_cost, max_tokens, max_requests)
    limits = Limits(budget_candidates, budget_seconds, task_seconds, patience, models)
    output = Output(Flags(as_json, unsafe_no_sandbox), markdown, html, rerun, at_once)
    return run("jaxbench", tasks, edition, target, search, limits, output)


@bench.command("models")
def models_command(
    tasks: Tasks = "",
    target: Target = "v6e",
    team: Team = None,
    mode: Mode = "auto",
    policy: Policy = None,
    seed: Seed = 0,
    budget_candidates: Candidates = 16,
    budget_seconds: Seconds = 600.0,
    task_seconds: TaskSeconds = 1800.0,
    patience: Patience = 3,
    max_cost: llm.MaxCost = None,
    max_tokens: llm.MaxTokens = None,
    max_requests: llm.MaxRequests = None,
    kernels: Kernels = "",
    at_once: AtOnce = 2,
    as_json: Json = False,
    markdown: Markdown = False,
    html: Html = "",
    rerun: Rerun = False,
    unsafe_no_sandbox: Unsafe = False,
) -> int:
    """Workloads of current open models. Limits are per task, as for jaxbench."""
    from maxkernel.cli.bench_run import Limits, Output, Search, run

    search = Search(team or [], mode, policy, seed, kernels)
    models = llm.Limits(max_cost, max_tokens, max_requests)
    limits = Limits(budget_candidates, budget_seconds, task_seconds, patience, models)
    output = Output(Flags(as_json, unsafe_no_sandbox), markdown, html, rerun, at_once)
    return run("models", tasks, "hardened", target, search, limits, output)


@bench.command("compare")
def compare_command(
    before: Annotated[str, typer.Argument(metavar="A", help="Folder or bench.json.")],
    after: Annotated[str, typer.Argument(metavar="B", help="Folder or bench.json.")],
    everything: Annotated[
        bool, typer.Option("--all", help="Also tasks that did not change.")
    ] = False,
    as_json: Json = False,
) -> int:
    """What changed between two tables, and whether it is beyond noise."""
    from maxkernel.cli.bench_compare import run_compare

    return run_compare(before, after, as_json, everything)
