"""What `maxkernel profile` does: where the time of a program goes, alone or beside another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
from rich.table import Table
from rich.text import Text

from maxkernel.api import Session, load_task, open_session
from maxkernel.api.calls import read_kernel
from maxkernel.cli import measured, tables
from maxkernel.cli.commands import candidate_of, print_json
from maxkernel.cli.flags import Flags
from maxkernel.errors import EXIT_ACCEPTED, EXIT_REFUSED, TaskError, UsageError
from maxkernel.judge import Measurement, Prepared, fastest_rate, measure
from maxkernel.report.profile_html import ProfilePage, render_profile
from maxkernel.schedule import ProfileView, profile_view, roof
from maxkernel.schedule.words import percent, size_words, time_words
from maxkernel.targets import get_target
from maxkernel.types import Artifact, Failure, ProgramTime

BASELINE = "xla"
"""Stands for XLA's compilation of the reference where a kernel is asked for."""

_BASELINE_NAME = "XLA's program"


class Subject(msgspec.Struct, frozen=True):
    """A program to profile: a kernel's, or XLA's."""

    name: str
    source: str
    program: ProgramTime | None
    problem: str = ""
    """Why its schedule could not be read."""
    failure: Failure | None = None
    """Why the judge refuses the kernel; one that compiled has a profile all the same."""
    exported: bytes = b""
    """What a TPU would run; empty for a kernel that is refused, which none is given."""


def run_profile(
    task: str,
    kernels: list[str],
    target: str,
    tunables: list[str],
    flags: Flags,
    html: str | None = None,
    compare: bool = False,
    provenance: str | None = None,
) -> int:
    """`maxkernel profile`: exit status 0 with a profile, 1 where a kernel does not compile.

    `provenance` chooses the clock, None: measured beside simulated where there is a TPU.
    """
    names = _names(kernels, compare)
    if html is not None and not Path(html).absolute().parent.is_dir():
        raise UsageError(
            f"--html {html}: {Path(html).parent} is no folder", "name a file in one that exists"
        )
    loaded = load_task(task)
    get_target(target)
    for name in names:
        if name != BASELINE:
            candidate_of(name, tunables)
    measuring = measured.measures(provenance)
    if html is not None and provenance == "measured":
        raise UsageError("--html draws the simulated program", "leave out --provenance measured")
    with (
        open_session(target, unsafe_no_sandbox=flags.unsafe) as session,
        tables.status(f"profiling for {target}", quiet=flags.as_json) as say,
    ):
        prepared = session.judge.prepare(loaded, say)
        subjects = [_subject(session, prepared, name, tunables) for name in names]
        clocked = _measure(session, prepared, subjects, say) if measuring else None
    if clocked is not None and provenance == "measured":
        return measured.show_only(clocked, flags.as_json)
    for subject in subjects:
        if subject.program is None:
            return no_profile(subject, flags.as_json)
    bound = prepared.bound.time.seconds
    needed = prepared.info.io_bytes
    views = [
        profile_view(subject.name, subject.program, bound, subject.source, needed)
        for subject in subjects
        if subject.program
    ]
    if html is not None:
        _write(Path(html), _page(prepared, subjects, views))
    if flags.as_json:
        _print_json(prepared, subjects, views, clocked)
        return EXIT_ACCEPTED
    if compare:
        _print_beside(views)
    else:
        for line in (f"{views[0].name} on TPU {target}", *views[0].digest):
            print(tables.printable(line))
    if clocked is not None:
        measured.show(clocked, _simulated([*subjects, _baseline(prepared)]))
    for subject in subjects:
        if subject.failure is not None:
            tables.console.print(Text(f"note: {subject.name} is refused by the judge:"))
            tables.print_failure(subject.failure)
    if html is not None:
        tables.console.print(Text(f"wrote {html}"))
    return EXIT_ACCEPTED


def _names(kernels: list[str], compare: bool) -> list[str]:
    """What to profile: `BASELINE` or files of kernels."""
    if not compare:
        if len(kernels) > 1:
            raise UsageError("two kernels: which one?", "--compare shows both side by side")
        return kernels or [BASELINE]
    if not kernels or len(kernels) > 2:
        raise UsageError(
            f"--compare takes one or two kernels, not {len(kernels)}",
            f"maxkernel profile TASK --compare A.py B.py; one alone is compared with {BASELINE}",
        )
    return [*kernels, BASELINE] if len(kernels) == 1 else kernels


def _subject(session: Session, prepared: Prepared, name: str, tunables: list[str]) -> Subject:
    if name == BASELINE:
        return _baseline(prepared)
    candidate = candidate_of(name, tunables)
    captured, _ = session.judge.capture(prepared, candidate)
    evaluation = session.judge.evaluate(prepared, candidate, captured=captured)
    return Subject(
        Path(name).name,
        read_kernel(Path(name)),
        evaluation.program,
        evaluation.schedule_problem,
        evaluation.failure,
        captured.tpu if evaluation.accepted and isinstance(captured, Artifact) else b"",
    )


def _baseline(prepared: Prepared) -> Subject:
    program, problem = prepared.baseline_program, prepared.schedule_problem
    exported = prepared.info.reference_tpu
    return Subject(_BASELINE_NAME, "", program, problem, exported=exported)


def _simulated(subjects: list[Subject]) -> dict[str, float]:
    return {one.name: one.program.mean_seconds for one in subjects if one.program}


def _measure(
    session: Session, prepared: Prepared, subjects: list[Subject], say: Callable[[str], None]
) -> Measurement | Failure:
    """Measures the subjects, a kernel alone together with XLA's program; none that is refused."""
    for subject in subjects:
        if subject.failure is not None:
            return subject.failure
    say("measuring")
    alone = len(subjects) == 1 and subjects[0].source
    chosen = [*subjects, _baseline(prepared)] if alone else subjects
    return measure(session.executor, prepared, [(one.name, one.exported) for one in chosen])


def no_profile(subject: Subject, as_json: bool) -> int:
    """A program without a time: its kernel does not compile, or its schedule cannot be read."""
    if subject.failure is None or subject.problem:
        raise TaskError(
            f"{subject.name}: the compiled schedule could not be read: "
            f"{subject.problem or 'no reason was kept'}",
            "the roofline bound still holds (`maxkernel judge`); if the compiler is another "
            "version than `maxkernel doctor` expects, install the one it names",
        )
    if as_json:
        print_json({"failure": subject.failure, "exit_status": EXIT_REFUSED})
    else:
        tables.console.print(Text(f"{subject.name} has no profile:"))
        tables.print_failure(subject.failure)
    return EXIT_REFUSED


def _page(prepared: Prepared, subjects: list[Subject], views: list[ProfileView]) -> ProfilePage:
    shown = [(subject.name, subject.program) for subject in subjects if subject.program]
    if all(name != _BASELINE_NAME for name, _ in shown) and prepared.baseline_program:
        shown.append((_BASELINE_NAME, prepared.baseline_program))
    info, target = prepared.info, prepared.target
    rate = fastest_rate(info, target)
    return ProfilePage(
        task=prepared.task.name,
        target=target.name,
        profiles=tuple(views),
        sources=tuple(subject.source for subject in subjects),
        roof=roof(shown, info.flops, rate, target),
    )


def _write(path: Path, page: ProfilePage) -> None:
    try:
        path.write_text(render_profile(page), encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"--html {path}: cannot be written: {error.strerror or error}", "name another file"
        ) from error


def _print_json(
    prepared: Prepared,
    subjects: list[Subject],
    views: list[ProfileView],
    clocked: Measurement | Failure | None,
) -> None:
    """One program under `program` and `profile`; two under `compare`."""
    items = [
        {"program": subject.program, "profile": view, "failure": subject.failure}
        for subject, view in zip(subjects, views, strict=True)
    ]
    head = {"bound": prepared.bound, "measured": clocked, "exit_status": EXIT_ACCEPTED}
    print_json((items[0] if len(items) == 1 else {"compare": items}) | head)


def _print_beside(views: list[ProfileView]) -> None:
    first, second = views
    table = Table(title=f"{first.name} beside {second.name} on TPU {first.target}")
    table.add_column("", overflow="fold")
    for view in views:
        table.add_column(view.name, overflow="fold")
    for name, left, right in _rows(first, second):
        table.add_row(name, Text(left), Text(right))
    tables.console.print(table)
    ratio = second.seconds / first.seconds
    error = max(first.expected_error, second.expected_error)
    word = "faster" if ratio >= 1 else "slower"
    sure = "" if max(ratio, 1 / ratio) > 1 + error else "; within the expected error, so no claim"
    tables.console.print(
        Text(f"{first.name} is {max(ratio, 1 / ratio):.3f}x {word} than {second.name}, both "
             f"simulated{sure}")
    )  # fmt: skip


def _rows(first: ProfileView, second: ProfileView) -> list[tuple[str, str, str]]:
    rows = [(name, read(first), read(second)) for name, read in _FACTS]
    uses = [_use(view) for view in (first, second)]
    for unit in ("mxu", "xlu", "valu", "eup", "load", "store", "scalar"):
        shares = [use.get(unit, 0.0) for use in uses]
        if any(shares):
            rows.append((f"{unit} busy", percent(shares[0]), percent(shares[1])))
    return [
        *rows,
        ("slowest ops", _ops(first), _ops(second)),
        ("bottleneck", first.bottleneck.sentence, second.bottleneck.sentence),
        ("removing it saves", _most(first), _most(second)),
    ]


def _waiting(view: ProfileView) -> str:
    return percent(sum(op.share * op.waiting for op in view.ops))


def _vmem(view: ProfileView) -> str:
    most = max((op.vmem_bytes for op in view.ops), default=0)
    return f"{size_words(most)} of {size_words(view.vmem_bytes)}" if most else "-"


def _spills(view: ProfileView) -> str:
    live = max((r.live_registers for op in view.ops for r in op.regions), default=0)
    spills = max((op.spills for op in view.ops), default=0.0)
    return f"{live} of {view.registers} live, {percent(spills)} of loads and stores spill"


def _use(view: ProfileView) -> dict[str, float]:
    """Use of the units by the slowest op, in cycles that it does not wait."""
    return view.ops[0].use if view.ops else {}


def _ops(view: ProfileView) -> str:
    ops = [op for op in view.ops if op.kind != "glue"][:4]
    return "\n".join(f"{percent(op.share)} {op.does} {op.name[:40]}" for op in ops)


def _most(view: ProfileView) -> str:
    return f"at most {percent(view.bottleneck.gain)}"


_FACTS: tuple[tuple[str, Callable[[ProfileView], str]], ...] = (
    ("time, simulated", lambda view: time_words(view.seconds)),
    ("expected error", lambda view: percent(view.expected_error)),
    ("of the roofline", lambda view: percent(view.bound_seconds / view.seconds)),
    ("waits for copies", _waiting),
    ("HBM traffic", lambda view: size_words(view.moved_bytes)),
    ("outside kernels", lambda view: percent(view.outside)),
    ("VMEM of a kernel", _vmem),
    ("vector registers", _spills),
)
"""What is compared, by name; the units follow."""
