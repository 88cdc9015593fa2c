"""The commands."""

from __future__ import annotations

from typing import Annotated

import typer

from maxkernel.cli.bench import bench
from maxkernel.cli.flags import Flags
from maxkernel.cli.graph import graph, search_many
from maxkernel.cli.optimize import optimize, resume
from maxkernel.cli.options import Json, NoCache, RunArgument, Target, TaskArgument, Unsafe, Weak
from maxkernel.cli.together import pair, serve

app = typer.Typer(
    help="Turns a JAX function into a Pallas TPU kernel that is proven equal to it and faster.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

app.add_typer(bench, name="bench")
app.command()(optimize)
app.command()(resume)
app.command()(graph)
app.command("search-many")(search_many)
app.command()(pair)
app.command()(serve)


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
def judge(
    task: TaskArgument,
    kernel: Annotated[str, typer.Argument(metavar="KERNEL", help="File with `kernel(...)`.")],
    target: Target = "v6e",
    tunable: Annotated[
        list[str] | None, typer.Option("--tunable", help="NAME=VALUE; may be repeated.")
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Only what every candidate of a search goes through: no further seeds and "
            "inputs, hazards or full size.",
        ),
    ] = False,
    allow_weak_task: Weak = False,
    as_json: Json = False,
    unsafe_no_sandbox: Unsafe = False,
    no_cache: NoCache = False,
) -> int:
    """Judge one kernel: capture, rules, compile, check, time, and all that a winner must bear."""
    from maxkernel.cli.commands import run_judge

    flags = Flags(as_json, unsafe_no_sandbox, not no_cache, allow_weak_task)
    return run_judge(task, kernel, target, tunable or [], flags, quick)


@app.command()
def verify(
    report: Annotated[
        str, typer.Argument(metavar="REPORT", help="A bundle's folder, or its report.json.")
    ],
    as_json: Json = False,
    unsafe_no_sandbox: Unsafe = False,
) -> int:
    """Judge a report's kernel again from its bundle, and say what agrees."""
    from maxkernel.cli.verify import run_verify

    return run_verify(report, Flags(as_json, unsafe_no_sandbox))


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
        list[str] | None,
        typer.Argument(metavar="[KERNEL]...", help="Files with kernels; `xla` is XLA's program."),
    ] = None,
    target: Target = "v6e",
    compare: Annotated[
        bool, typer.Option("--compare", help="Show two kernels, or one and XLA, side by side.")
    ] = False,
    html: Annotated[
        str | None, typer.Option("--html", metavar="FILE", help="Also write a picture, one page.")
    ] = None,
    provenance: Annotated[
        str | None,
        typer.Option(help="`simulated` or `measured`; both where this machine has a TPU."),
    ] = None,
    tunable: Annotated[
        list[str] | None, typer.Option("--tunable", help="NAME=VALUE; may be repeated.")
    ] = None,
    as_json: Json = False,
    unsafe_no_sandbox: Unsafe = False,
) -> int:
    """Say where the time of a program goes, and what limits it."""
    from maxkernel.cli.profile import run_profile

    flags = Flags(as_json, unsafe_no_sandbox)
    return run_profile(task, kernel or [], target, tunable or [], flags, html, compare, provenance)


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
    calls: Annotated[
        bool, typer.Option("--calls", help="Print what models were asked and answered instead.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Show a run: its result, or what it has found so far."""
    from maxkernel.cli.inspect import show_calls, show_run

    if calls:
        return show_calls(run, as_json)
    return show_run(run, source, events, as_json)


@app.command()
def docs(
    query: Annotated[
        list[str] | None, typer.Argument(metavar="[QUERY]", help="Words, a name, an error message.")
    ] = None,
    read: Annotated[
        str | None, typer.Option("--read", metavar="ID", help="Print this entry instead.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Search the Pallas guide and the installed jax: API, errors, strategies."""
    from maxkernel.cli.docs import run_docs

    return run_docs(" ".join(query or []), read, as_json)


@app.command()
def calibrate(
    output: Annotated[
        str | None,
        typer.Option("--output", metavar="FILE", help="Write here; default: where it is used."),
    ] = None,
    as_json: Json = False,
    unsafe_no_sandbox: Unsafe = False,
) -> int:
    """Measure the constants of the simulated clock on this machine's TPU, for its compiler."""
    from maxkernel.cli.calibrate import run_calibrate

    return run_calibrate(output, as_json, unsafe_no_sandbox)


@app.command()
def doctor(
    probe: Annotated[
        bool, typer.Option("--probe", help="Also ask every provider with a key for its models.")
    ] = False,
    model: Annotated[
        list[str] | None,
        typer.Option("--model", help="Also ask this model one short question; repeatable."),
    ] = None,
    as_json: Json = False,
) -> int:
    """Check this machine: compiler, sandbox, settings, providers of models."""
    from maxkernel.cli.doctor import run_doctor

    return run_doctor(as_json, probe, model or [])
