"""`maxkernel graph`, and the options of graph mode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from maxkernel.search.settings import SearchSettings

MODES = ("auto", "graph")

Mode = Annotated[
    str, typer.Option("--mode", help="auto (the closed loop) or graph (search many designs).")
]
Policy = Annotated[
    str | None,
    typer.Option("--policy", help="Of graph mode: best-first, beam, elites or parallel."),
]
Seed = Annotated[int, typer.Option("--seed", help="Of graph mode: another seed, another search.")]

NoMemory = Annotated[
    bool, typer.Option("--no-memory", help="Of graph mode: learn nothing from earlier tasks.")
]


def settings_of(mode: str, policy: str | None, seed: int) -> SearchSettings | None:
    """Settings of a graph search, None for another mode. Raises UsageError for unknown words."""
    from maxkernel.errors import UsageError
    from maxkernel.search.policies import DEFAULT_POLICY, get_policy
    from maxkernel.search.settings import SearchSettings

    if mode not in ("", *MODES):
        raise UsageError(f"unknown mode {mode!r}; known modes: {', '.join(MODES)}")
    if mode != "graph":
        if policy is not None:
            raise UsageError("--policy belongs to graph mode", "add --mode graph")
        return None
    name = policy or DEFAULT_POLICY
    get_policy(name)
    return SearchSettings(name, seed)


def graph(
    run: Annotated[
        str,
        typer.Argument(metavar="RUN", help="Run name, a unique start of it, `last`, or a path."),
    ],
    html: Annotated[
        str | None, typer.Option("--html", metavar="FILE", help="Write the graph as a page.")
    ] = None,
    pin: Annotated[
        list[int] | None, typer.Option("--pin", help="Design to keep working on; may be repeated.")
    ] = None,
    cut: Annotated[
        list[int] | None,
        typer.Option("--cut", help="Design to drop with all that came of it; may be repeated."),
    ] = None,
    hint: Annotated[
        list[str] | None,
        typer.Option("--hint", help="`TEXT` for the task, or `ID: TEXT` for a design."),
    ] = None,
    budget: Annotated[
        int | None, typer.Option("--budget", help="New limit of candidates, spent ones included.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> int:
    """Show a run's designs as a tree, or steer its search, whether it runs or not."""
    from maxkernel.cli.graph_view import run_graph_command

    return run_graph_command(run, html, pin or [], cut or [], hint or [], budget, as_json)


def search_many(
    folder: Annotated[
        str | None, typer.Argument(metavar="[DIR]", help="Folder of task files.")
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(
            "--resume",
            metavar="SEARCH",
            help="Go on with one that stopped: its name, a unique start of it, `last`, or a path.",
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", help="TPU generation: v4 v5e v5p v6e v7x (v6e).")
    ] = None,
    budget_candidates: Annotated[
        int | None,
        typer.Option(
            "--budget-candidates",
            "--max-evaluations",
            help="Kernels to compile and judge at most, over all tasks and resumes (200).",
        ),
    ] = None,
    budget_seconds: Annotated[
        float | None,
        typer.Option(
            "--budget-seconds", "--max-time", help="Seconds to search, over all tasks and resumes."
        ),
    ] = None,
    policy: Policy = None,
    seed: Seed = 0,
    no_memory: NoMemory = False,
    allow_weak_task: Annotated[
        bool, typer.Option("--allow-weak-task", help="Also search for tasks that fail the lint.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    unsafe_no_sandbox: Annotated[
        bool,
        typer.Option("--unsafe-no-sandbox", help="Run kernels without a sandbox if need be."),
    ] = False,
) -> int:
    """Search for kernels for a whole folder of tasks in one budget, shared by what it gains."""
    from maxkernel.cli.flags import Flags
    from maxkernel.cli.many import Limits, run_resume_many, run_search_many
    from maxkernel.errors import UsageError

    limits = Limits(budget_candidates, budget_seconds)
    flags = Flags(as_json, unsafe_no_sandbox, True, allow_weak_task, not no_memory)
    if (folder is None) == (resume is None):
        raise UsageError("give a folder of tasks, or --resume with a search that stopped")
    if resume is None:
        settings = settings_of("graph", policy, seed)
        return run_search_many(folder or "", target or "v6e", limits, flags, settings)
    if target is not None or policy is not None or seed or no_memory or allow_weak_task:
        raise UsageError(
            "a search that goes on keeps its target, policy, seed, memory and weak tasks",
            "only the budget can change",
        )
    return run_resume_many(resume, limits, flags)
