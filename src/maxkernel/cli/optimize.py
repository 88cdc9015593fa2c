"""`maxkernel optimize` and `maxkernel resume`."""

from __future__ import annotations

from typing import Annotated

import typer

from maxkernel.cli import models
from maxkernel.cli.flags import Flags
from maxkernel.cli.graph import Mode, NoMemory, Policy, Seed, settings_of
from maxkernel.cli.options import Json, NoCache, RunArgument, Target, TaskArgument, Unsafe, Weak

Candidates = Annotated[
    int,
    typer.Option(
        "--budget-candidates", "--max-evaluations", help="Kernels to compile and judge at most."
    ),
]
Seconds = Annotated[
    float | None,
    typer.Option("--budget-seconds", "--max-time", help="Seconds to run, over all resumes."),
]
Patience = Annotated[int, typer.Option(help="Rounds without gain before stopping.")]
NewCandidates = Annotated[
    int | None,
    typer.Option("--budget-candidates", "--max-evaluations", help="New limit, spent included."),
]
NewSeconds = Annotated[
    float | None,
    typer.Option("--budget-seconds", "--max-time", help="New limit, spent seconds included."),
]

From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="RUN",
        help="A run of this task for another target: its accepted designs are tried here first.",
    ),
]


def optimize(
    task: TaskArgument,
    target: Target = "v6e",
    model: models.Model = None,
    planner: models.Planner = None,
    implementer: models.Implementer = None,
    debugger: models.Debugger = None,
    mover: models.Mover = None,
    tuner: models.Tuner = None,
    profiler: models.Profiler = None,
    explainer: models.Explainer = None,
    tester: models.Tester = None,
    max_cost: models.MaxCost = None,
    max_tokens: models.MaxTokens = None,
    max_requests: models.MaxRequests = None,
    record: models.Record = None,
    replay: models.Replay = None,
    budget_candidates: Candidates = 24,
    budget_seconds: Seconds = None,
    patience: Patience = 3,
    mode: Mode = "auto",
    policy: Policy = None,
    seed: Seed = 0,
    no_memory: NoMemory = False,
    port_from: From = None,
    allow_weak_task: Weak = False,
    as_json: Json = False,
    unsafe_no_sandbox: Unsafe = False,
    no_cache: NoCache = False,
) -> int:
    """Search for a kernel that beats XLA, and write the bundle."""
    from maxkernel.cli.commands import run_optimize
    from maxkernel.types import Budget

    roles = {
        "default": model,
        "planner": planner,
        "implementer": implementer,
        "debugger": debugger,
        "mover": mover,
        "tuner": tuner,
        "profiler": profiler,
        "explainer": explainer,
        "tester": tester,
    }
    limits = models.Limits(max_cost, max_tokens, max_requests)
    chosen, traffic = models.chosen(roles, limits, replay, record)
    budget = Budget(candidates=budget_candidates, seconds=budget_seconds, patience=patience)
    flags = Flags(as_json, unsafe_no_sandbox, not no_cache, allow_weak_task, not no_memory)
    search = settings_of(mode, policy, seed)
    return run_optimize(task, target, budget, flags, search, chosen, traffic, port_from)


def resume(
    run: RunArgument,
    model: models.Model = None,
    max_cost: models.MaxCost = None,
    max_tokens: models.MaxTokens = None,
    max_requests: models.MaxRequests = None,
    record: models.Record = None,
    budget_candidates: NewCandidates = None,
    budget_seconds: NewSeconds = None,
    mode: Mode = "",
    policy: Policy = None,
    seed: Seed = 0,
    no_memory: NoMemory = False,
    as_json: Json = False,
    unsafe_no_sandbox: Unsafe = False,
) -> int:
    """Go on with a run that was stopped or killed."""
    from maxkernel.cli.commands import run_resume

    flags = Flags(as_json, unsafe_no_sandbox, use_memory=not no_memory)
    search = settings_of(mode, policy, seed)
    limits = models.Limits(max_cost, max_tokens, max_requests)
    changes = models.Changes(model, limits, record)
    return run_resume(run, budget_candidates, budget_seconds, flags, search, changes)
