"""The report of a run as data: what report.json holds and every other form is made from."""

from __future__ import annotations

from typing import Protocol

import msgspec

from maxkernel.judge import Item, Judge, Prepared, checklist, describe_holes, doubtful_baseline
from maxkernel.modes import Finish
from maxkernel.report.usage import ModelUse, model_use
from maxkernel.store import RunFile
from maxkernel.types import (
    WON,
    ArraySpec,
    Confirmation,
    Design,
    Evaluation,
    InputCase,
    Numerics,
    Task,
    Time,
    Tolerance,
    Tunable,
)

REPORT_FORMAT = 1


class CandidateLine(msgspec.Struct, frozen=True):
    """One candidate and its fate."""

    candidate: str
    """Digest of source and tunables."""
    design: int
    move: str
    strategy: str
    tunables: dict[str, Tunable]
    fate: str
    """`accepted`, or `stage/kind: message`."""
    time: Time | None
    speedup: float | None
    elapsed_seconds: float


class RunReport(msgspec.Struct, frozen=True):
    """Everything that a reader needs to believe or doubt a result."""

    format: int
    run: str
    task: str
    task_digest: str
    target: str
    mode: str
    versions: dict[str, str]
    sandbox: str
    outcome: str
    """`faster`, `fits` (XLA's program does not fit in memory, a kernel runs), `xla` (XLA's program
    stands) or `none` (no kernel was accepted)."""
    reason: str
    """Why the run ended."""
    baseline: Time
    """Of XLA's program; the roofline bound where that does not fit, see `misfit`."""
    best: Time | None
    """The fastest accepted kernel, handed back only when the run has `won`."""
    speedup: float | None
    bound: Time
    limit: str
    """`compute` or `memory`: the side of the roofline that the task lies on."""
    roofline_fraction: float | None
    """Bound / best time."""
    baseline_fraction: float
    inputs: tuple[ArraySpec, ...]
    outputs: tuple[ArraySpec, ...]
    check_inputs: tuple[ArraySpec, ...]
    tolerance: Tolerance
    numerics: Numerics | None
    confirmed: bool
    confirmation: Confirmation | None
    plan: str
    explanation: str
    tunables: dict[str, Tunable]
    candidates: tuple[CandidateLine, ...]
    seconds: float
    """Time that the run was driven for, on this machine."""
    notes: tuple[str, ...] = ()
    models: tuple[ModelUse, ...] = ()
    """Language models that were asked, and what they used."""
    source: Task | None = None
    """The task itself, so that the report can be judged again."""
    cases: tuple[InputCase, ...] = ()
    """Hard inputs that a tester thought of; the checklist says which of them were run."""
    checklist: tuple[Item, ...] = ()
    """What the best kernel's verdict rests on."""
    kernel_digest: str = ""
    """SHA-256 of the bundle's kernel.py; empty without one."""
    seal: str = ""
    """SHA-256 of everything else in report.json; see `report.seal`."""
    misfit: str = ""
    """Why XLA's program cannot run on the target at all."""

    @property
    def won(self) -> bool:
        """A kernel is handed back."""
        return self.outcome in WON


def build_report(run: RunFile, judge: Judge, prepared: Prepared, finish: Finish) -> RunReport:
    """The report of a run as it stands in its file."""
    header = run.header
    designs = {design.id: design for design in run.designs()}
    verdict = finish.best
    evaluation = verdict.evaluation if verdict else None
    best = evaluation.time if evaluation else None
    bound = prepared.bound.time
    winner = designs.get(finish.design) if finish.design is not None else None
    lines = tuple(
        _line(designs[design], found, judge, prepared) for design, found in run.evaluations()
    )
    return RunReport(
        format=REPORT_FORMAT,
        run=header.run,
        task=header.task.name,
        task_digest=header.task.digest,
        target=header.target,
        mode=header.mode,
        versions=header.versions,
        sandbox=evaluation.sandbox if evaluation else str(header.options.get("sandbox", "")),
        outcome=finish.outcome,
        reason=finish.reason,
        baseline=prepared.baseline,
        best=best,
        speedup=verdict.speedup if verdict else None,
        bound=bound,
        limit=prepared.bound.limit,
        roofline_fraction=bound.seconds / best.seconds if best else None,
        baseline_fraction=bound.seconds / prepared.baseline.seconds,
        inputs=prepared.info.inputs,
        outputs=prepared.info.outputs,
        check_inputs=prepared.info.check_inputs,
        tolerance=prepared.info.tolerance,
        numerics=evaluation.numerics if evaluation else None,
        confirmed=finish.confirmed,
        confirmation=finish.confirmation,
        plan=f"{winner.plan.family}: {winner.plan.strategy}" if winner else "",
        explanation=finish.explanation,
        tunables=evaluation.candidate.tunables if evaluation else {},
        candidates=lines,
        seconds=run.spent_seconds(),
        notes=_notes(prepared, evaluation, verdict.doubt if verdict else ""),
        models=model_use(run),
        checklist=checklist(prepared, evaluation, finish.confirmation) if evaluation else (),
        cases=prepared.cases,
        source=msgspec.structs.replace(header.task, origin=""),
        misfit=prepared.misfit,
    )


def quote(value: float) -> str:
    """A number with three significant digits, never in exponent form for everyday sizes."""
    return f"{value:.3g}" if 1e-3 <= abs(value) < 1e4 or value == 0 else f"{value:.2e}"


def quote_time(time: Time | None) -> str:
    """A time for people: value, unit, provenance and expected error."""
    if time is None:
        return "-"
    seconds = time.seconds
    value, unit = (
        (seconds * 1e3, "ms")
        if 1e-3 <= seconds < 1
        else (seconds * 1e6, "us")
        if seconds < 1e-3
        else (seconds, "s")
    )
    error = f" ±{100 * time.expected_error:.0f} %" if time.expected_error else ""
    return f"{value:.4g} {unit} {time.provenance}{error}"


class _Compared(Protocol):
    """Anything with XLA's time in it."""

    @property
    def baseline(self) -> Time: ...

    @property
    def misfit(self) -> str: ...


def quote_baseline(of: _Compared) -> str:
    """XLA's time for people, or that its program does not fit."""
    return "does not fit in memory" if of.misfit else quote_time(of.baseline)


def xla_in_words(of: _Compared) -> str:
    """The same as a sentence."""
    return f"XLA {quote_baseline(of)}" if of.misfit else f"XLA takes {quote_baseline(of)}"


def describe_confirmation(confirmation: Confirmation | None) -> str:
    """What a winner went through, in words; empty where there was no winner."""
    if confirmation is None:
        return ""
    text = (
        f"right on {confirmation.seeds} further seeds; bit-equal under {confirmation.hazard_runs} "
        "runs with other poison, DMA timing and order of parallel steps"
    )
    others = list(dict.fromkeys(t.name for t in confirmation.trials if not t.skipped))
    if others:
        text += f"; right on other inputs ({', '.join(others)})"
    spot = confirmation.spot
    if spot is None:
        return text
    if spot.skipped:
        return f"{text}; not spot-checked at full size: {spot.skipped}"
    return (
        f"{text}; at full size {spot.blocks} random blocks ({spot.elements} elements, "
        f"{spot.steps} steps run of a grid of {spot.total_steps}) equal the oracle"
    )


def _line(
    design: Design, evaluation: Evaluation, judge: Judge, prepared: Prepared
) -> CandidateLine:
    failure = evaluation.failure
    fate = f"{failure.stage}/{failure.kind}: {failure.message}" if failure else "accepted"
    return CandidateLine(
        candidate=evaluation.candidate.digest,
        design=design.id,
        move=design.move,
        strategy=design.plan.strategy,
        tunables=evaluation.candidate.tunables,
        fate=fate,
        time=evaluation.time,
        speedup=judge.verdict(prepared, evaluation).speedup,
        elapsed_seconds=sum(evaluation.elapsed.values()),
    )


def _notes(prepared: Prepared, evaluation: Evaluation | None, doubt: str) -> tuple[str, ...]:
    notes = list(prepared.info.warnings)
    if doubt:
        notes.append(f"NO CLAIM OF SPEED: a time depends on data that the clock lacks: {doubt}")
    if prepared.lint.holes:
        holes = describe_holes(prepared.lint)
        notes.append(f"WEAK TASK: its check can be passed without doing the work: {holes}")
    if below := doubtful_baseline(prepared):
        notes.append(below)
    programs = [("baseline", prepared.baseline_program)]
    if evaluation is not None:
        programs.append(("kernel", evaluation.program))
    if prepared.misfit:
        notes.append(prepared.misfit)
        del programs[0]
    for name, program in programs:
        if program is None:
            notes.append(f"{name}: no schedule could be read; its time is the roofline bound")
            continue
        notes += [f"{name}: {text}" for text in program.assumptions]
        if program.unknown:
            notes.append(f"{name}: instructions not known to the simulator: {program.unknown}")
    if evaluation is not None and evaluation.sandbox == "none":
        notes.append("the kernel ran without a sandbox (--unsafe-no-sandbox)")
    return tuple(notes)
