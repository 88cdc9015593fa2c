"""What commands print for people."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from maxkernel.judge import Prepared
from maxkernel.report import (
    RunReport,
    describe_confirmation,
    describe_use,
    quote,
    quote_baseline,
    quote_time,
)
from maxkernel.report.markdown import OUTCOMES
from maxkernel.types import Evaluation, Failure, Numerics, Verdict

console = Console(highlight=False)
_stderr = Console(stderr=True, highlight=False)


def printable(text: str) -> str:
    """`text` without the control characters that could change the terminal."""
    return "".join(c for c in text if c.isprintable() or c in "\n\t")


@contextmanager
def status(text: str, *, quiet: bool) -> Generator[Callable[[str], None]]:
    """A spinner with a text that the caller may change; silent when `quiet`."""
    if quiet:
        yield lambda _: None
        return
    with _stderr.status(text) as spinner:
        yield lambda stage: spinner.update(stage)


def print_report(report: RunReport, bundle: Path) -> None:
    """The table at the end of a run."""
    table = Table(show_header=False, title=f"{report.task} on TPU {report.target}")
    table.add_column()
    table.add_column(overflow="fold")
    rows = [
        ("result", OUTCOMES[report.outcome]),
        ("XLA baseline", quote_baseline(report)),
        ("best kernel", quote_time(report.best)),
        ("speedup", f"{report.speedup:.3f}x" if report.speedup else "-"),
        ("roofline bound", f"{quote_time(report.bound)} ({report.limit})"),
        ("of the roofline", _fractions(report)),
        ("error", _worst(report.numerics)),
        ("confirmed", describe_confirmation(report.confirmation) or "-"),
        ("best kernel is", report.plan or "-"),
        ("tuned constants", ", ".join(f"{k}={v}" for k, v in report.tunables.items()) or "-"),
        ("why", report.explanation.strip() or "-"),
        ("candidates", _counts(report)),
        *(("model", describe_use(use)) for use in report.models),
        ("ended", f"{report.reason}, after {report.seconds:.0f} s; sandbox {report.sandbox}"),
        ("bundle", f"{bundle}" + ("" if report.won else "  (reports only)")),
    ]
    for name, value in rows:
        table.add_row(name, Text(value))
    console.print(table)
    for note in report.notes:
        console.print(Text(f"note: {note}"))


def print_verdict(prepared: Prepared, verdict: Verdict) -> None:
    """The judge's checklist for one kernel."""
    evaluation = verdict.evaluation
    table = Table(show_header=False, title=f"{prepared.task.name} on TPU {prepared.target.name}")
    table.add_column()
    table.add_column(overflow="fold")
    word = "accepted" if evaluation.accepted else "refused"
    if evaluation.accepted:
        word += f", {verdict.word}"
    calls = evaluation.facts.pallas_calls if evaluation.facts else ()
    grids = ", ".join(f"{c.name} grid {'x'.join(map(str, c.grid)) or '1'}" for c in calls)
    rows = [
        ("verdict", word),
        ("XLA baseline", quote_baseline(verdict)),
        ("kernel", quote_time(evaluation.time)),
        ("speedup", f"{verdict.speedup:.3f}x" if verdict.speedup else "-"),
        ("roofline bound", quote_time(verdict.bound)),
        *_clock(evaluation),
        ("error", _worst(evaluation.numerics)),
        ("Pallas kernels", grids or "-"),
        ("sandbox", evaluation.sandbox),
        ("took", ", ".join(f"{k} {v:.2f} s" for k, v in evaluation.elapsed.items())),
    ]
    for name, value in rows:
        table.add_row(name, Text(value))
    console.print(table)
    if evaluation.failure is not None:
        print_failure(evaluation.failure)


def _clock(evaluation: Evaluation) -> list[tuple[str, str]]:
    """Which constants the clock has, where the user's calibration says something about it."""
    used = evaluation.program.calibration if evaluation.program else None
    return [("clock", used.note)] if used else []


def print_failure(failure: Failure) -> None:
    """A failure in words: where, what, the useful lines, the next step."""
    where = f", line {failure.line}" if failure.line else ""
    console.print(Text(f"{failure.stage}/{failure.kind}{where}: {failure.message}"))
    if failure.detail:
        console.print(Text("  " + failure.detail.strip().replace("\n", "\n  ")))
    if failure.advice:
        console.print(Text(f"  try: {failure.advice}"))


def _fractions(report: RunReport) -> str:
    mine = f"{100 * report.roofline_fraction:.1f} % best, " if report.roofline_fraction else ""
    return mine + (f"{100 * report.baseline_fraction:.1f} % XLA" if not report.misfit else "XLA -")


def _worst(numerics: Numerics | None) -> str:
    if numerics is None:
        return "-"
    worst = max(numerics.outputs, key=lambda output: output.excess)
    return (
        f"max {quote(worst.max_abs)}, RMS {quote(worst.rms)} against the {numerics.oracle} oracle "
        f"(the reference itself: {quote(worst.reference_max_abs)}, {quote(worst.reference_rms)})"
    )


def _counts(report: RunReport) -> str:
    accepted = sum(line.fate == "accepted" for line in report.candidates)
    return f"{len(report.candidates)} judged, {accepted} accepted"
