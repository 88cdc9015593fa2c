"""Commands for people: `pair` in the terminal, `serve` in a browser."""

from __future__ import annotations

from typing import Annotated

import typer

from maxkernel.cli import models
from maxkernel.cli.options import Target, Unsafe


def pair(
    task: Annotated[
        str | None, typer.Argument(metavar="[TASK]", help="Task file or folder.")
    ] = None,
    resume: Annotated[
        str | None, typer.Option("--resume", help="Take up this run instead: name, or `last`.")
    ] = None,
    target: Target = "v6e",
    approve: Annotated[
        str | None,
        typer.Option(help="What waits for your word: all (default), plans, or none."),
    ] = None,
    budget_candidates: Annotated[
        int, typer.Option(help="Kernels to compile and judge at most.")
    ] = 24,
    model: models.Model = None,
    planner: models.Planner = None,
    implementer: models.Implementer = None,
    debugger: models.Debugger = None,
    tuner: models.Tuner = None,
    profiler: models.Profiler = None,
    explainer: models.Explainer = None,
    max_cost: models.MaxCost = None,
    max_tokens: models.MaxTokens = None,
    max_requests: models.MaxRequests = None,
    unsafe_no_sandbox: Unsafe = False,
) -> int:
    """Design a kernel together with the team, step by step, in the terminal."""
    from maxkernel.cli.pair import run_pair
    from maxkernel.types import Budget

    roles = {
        "default": model,
        "planner": planner,
        "implementer": implementer,
        "debugger": debugger,
        "tuner": tuner,
        "profiler": profiler,
        "explainer": explainer,
    }
    team, _ = models.chosen(roles, models.Limits(max_cost, max_tokens, max_requests))
    budget = Budget(candidates=budget_candidates)
    return run_pair(task, resume, target, budget, approve, unsafe_no_sandbox, team)


def serve(
    host: Annotated[
        str, typer.Option(help="Address to listen on; any but this machine's own asks a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.")] = 8320,
    tasks: Annotated[
        list[str] | None,
        typer.Option("--tasks", help="Folder of tasks that may be opened; may be repeated."),
    ] = None,
    model: models.Model = None,
    planner: models.Planner = None,
    implementer: models.Implementer = None,
    debugger: models.Debugger = None,
    tuner: models.Tuner = None,
    profiler: models.Profiler = None,
    explainer: models.Explainer = None,
    max_cost: models.MaxCost = None,
    max_tokens: models.MaxTokens = None,
    max_requests: models.MaxRequests = None,
    unsafe_no_sandbox: Unsafe = False,
) -> int:
    """Show every run in a browser, and design kernels there: the studio.

    Models are those of sessions that are opened in the browser, with these limits for each.
    """
    from maxkernel.cli.studio import run_serve

    roles = {
        "default": model,
        "planner": planner,
        "implementer": implementer,
        "debugger": debugger,
        "tuner": tuner,
        "profiler": profiler,
        "explainer": explainer,
    }
    team, _ = models.chosen(roles, models.Limits(max_cost, max_tokens, max_requests))
    return run_serve(host, port, tasks or [], unsafe_no_sandbox, team)
