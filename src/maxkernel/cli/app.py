"""The commands."""

from __future__ import annotations

from typing import Annotated

import typer

from maxkernel.cli.bench import bench
from maxkernel.cli.flags import Flags
from maxkernel.cli.graph import Mode, NoMemory, Policy, Seed, graph, settings_of

app = typer.Typer(
    help="Turns a JAX function into a Pallas TPU kernel that is proven equal to it and faster.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

app.add_typer(bench, name="bench")
app.command()(graph)

Target = Annotated[str, typer.Option("--target", help="TPU generation: v4 v5e v5p v6e v7x.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Unsafe = Annotated[
    bool,
    typer.Option("--unsafe-no-sandbox", help="Run kernels without a sandbox if there is none."),
]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Ignore earlier answers.")]
Weak = Annotated[
    bool,
    typer.Option("--allow-weak-task", help="Also judge a task that `maxkernel lint` refuses."),
]
TaskArgument = Annotated[str, typer.Argument(metavar="TASK", help="Task file or folder.")]
RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="Run name, a unique start of it, `last`, or a path.")
]


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"maxkernel {version('maxkernel')}")
        raise typer.Exit()


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Exit status: 0 accepted, 1 judged and refused, 2 wrong use, 3 environment fault.

    Every command takes --debug, which shows the traceback of an error.
    """


@app.command()
def optimize(
    task: TaskArgument,
    target: Target = "v6e",
    budget_candidates: Annotated[
        int, typer.Option(help="Kernels to compile and judge at most.")
    ] = 24,
    budget_seconds: Annotated[
        float | None, typer.Option(help="Seconds to run at most, over all resumes.")
    ] = None,
    patience: Annotated[int, typer.Option(help="Rounds without gain before stopping.")] = 3,
    mode: Mode = "auto",
    policy: Policy = None,
    seed: Seed = 0,
    no_memory: NoMemory = False,
    allow_weak_task: Weak = False,
    as_json: Json = False,
    unsafe_no_sandbox: Unsafe = False,
    no_cache: NoCache = False,
) -> int:
    """Search for a kernel that beats XLA, and write the bundle."""
    from maxkernel.cli.commands import run_optimize
    from maxkernel.types import Budget

    budget = Budget(candidates=budget_candidates, seconds=budget_seconds, patience=patience)
    flags = Flags(as_json, unsafe_no_sandbox, not no_cache, allow_weak_task, not no_memory)
    return run_optimize(task, target, budget, flags, settings_of(mode, policy, seed))


@app.command()
def judge(
    task: TaskArgument,
    kernel: Annotated[str, typer.Argument(metavar="KERNEL", help="File with `kernel(...)`.")],
    target: Target = "v6e",
    tunable: Annotated[
        list[str] | None, typer.Option("--tunable", help="NAME=VALUE; may be repeated.")
    ] = None,
    allow_weak_task: Weak = False,
    as_json: Json = False,
    unsafe_no_sandbox: Unsafe = False,
    no_cache: NoCache = False,
) -> int:
    """Judge one kernel: capture, rules, compile, check, time."""
    from maxkernel.cli.commands import run_judge

    flags = Flags(as_json, unsafe_no_sandbox, not no_cache, allow_weak_task)
    return run_judge(task, kernel, target, tunable or [], flags)


@app.command()
def lint(
    task: TaskArgument,
    target: Target = "v6e",
    as_json: Json = False,
    unsafe_no_sandbox: Unsafe = False,
) -> int:
    """Tell whether a task can be passed without doing its work."""
    from maxkernel.cli.lint import run_lint

    return run_lint(task, target, Flags(as_json, unsafe_no_sandbox))


@app.command()
def profile(
    task: TaskArgument,
    kernel: Annotated[
        str | None, typer.Argument(metavar="[KERNEL]", help="Without it, XLA's program.")
    ] = None,
    target: Target = "v6e",
    tunable: Annotated[
        list[str] | None, typer.Option("--tunable", help="NAME=VALUE; may be repeated.")
    ] = None,
    as_json: Json = False,
    unsafe_no_sandbox: Unsafe = False,
) -> int:
    """Say where the time of a program goes."""
    from maxkernel.cli.commands import run_profile

    return run_profile(task, kernel, target, tunable or [], Flags(as_json, unsafe_no_sandbox))


@app.command()
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
    unsafe_no_sandbox: Unsafe = False,
) -> int:
    """Design a kernel together with the team, step by step, in the terminal."""
    from maxkernel.cli.pair import run_pair
    from maxkernel.types import Budget

    budget = Budget(candidates=budget_candidates)
    return run_pair(task, resume, target, budget, approve, unsafe_no_sandbox)


@app.command()
def serve(
    host: Annotated[
        str, typer.Option(help="Address to listen on; any but this machine's own asks a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.")] = 8320,
    tasks: Annotated[
        list[str] | None,
        typer.Option("--tasks", help="Folder of tasks that may be opened; may be repeated."),
    ] = None,
    unsafe_no_sandbox: Unsafe = False,
) -> int:
    """Show every run in a browser, and design kernels there: the studio."""
    from maxkernel.cli.studio import run_serve

    return run_serve(host, port, tasks or [], unsafe_no_sandbox)


@app.command()
def runs(as_json: Json = False) -> int:
    """List runs."""
    from maxkernel.cli.inspect import list_all

    return list_all(as_json)


@app.command()
def show(
    run: RunArgument,
    source: Annotated[
        int | None, typer.Option(help="Print the source of this design instead.")
    ] = None,
    events: Annotated[bool, typer.Option("--events", help="Print the event log instead.")] = False,
    as_json: Json = False,
) -> int:
    """Show a run: its result, or what it has found so far."""
    from maxkernel.cli.inspect import show_run

    return show_run(run, source, events, as_json)


@app.command()
def resume(
    run: RunArgument,
    budget_candidates: Annotated[
        int | None, typer.Option(help="New limit, spent candidates included.")
    ] = None,
    budget_seconds: Annotated[
        float | None, typer.Option(help="New limit, spent seconds included.")
    ] = None,
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
    return run_resume(run, budget_candidates, budget_seconds, flags, search)


@app.command()
def doctor(as_json: Json = False) -> int:
    """Check this machine: compiler, sandbox, settings."""
    from maxkernel.cli.doctor import run_doctor

    return run_doctor(as_json)
