"""From a compiled program to a time with provenance."""

from __future__ import annotations

from maxkernel.judge.bound import Roofline
from maxkernel.judge.prepared import Prepared
from maxkernel.schedule import expected_error, unsure
from maxkernel.targets import Target
from maxkernel.types import Evaluation, Failure, ProgramTime, Time, Verdict
from maxkernel.types.messages import CompileReply

FLOOR_SLACK = 0.02
"""A time may lie this fraction below the floor: bandwidth figures are rounded."""


def time_of(compiled: CompileReply, bound: Roofline) -> Time:
    """The simulated time of a program, or the roofline bound where no schedule could be read."""
    if compiled.program is None:
        return bound.time
    return Time(
        seconds=compiled.program.mean_seconds,
        provenance="simulated",
        expected_error=expected_error(compiled.program),
        draws=compiled.program.draws,
    )


def misfit_of(compiled: CompileReply | Failure, target: Target) -> str:
    """In words, that XLA's program needs more memory than the target has; empty where not."""
    if not isinstance(compiled, Failure) or compiled.kind != "hbm":
        return ""
    first = compiled.message.splitlines()[0]
    return f"XLA's program does not fit in the memory of a {target.name}: {first}"


def doubt_of(program: ProgramTime | None) -> str:
    """Why a program's simulated time may be wrong by any factor; empty where it is sound."""
    return unsure(program) if program is not None else ""


def too_fast(mine: Time, bound: Roofline, program: ProgramTime | None = None) -> Failure | None:
    """A failure when a time lies below what the task's bytes need at peak bandwidth.

    A time for which steering data was assumed says nothing here: no claim is made with it either.
    """
    if mine.provenance == "bound" or mine.seconds >= bound.floor * (1 - FLOOR_SLACK):
        return None
    if mine.provenance == "simulated" and doubt_of(program):
        return None
    return Failure(
        stage="time",
        kind="too_fast",
        message=(
            f"{mine.provenance} time {mine.seconds * 1e6:.1f} us is below the "
            f"{bound.floor * 1e6:.1f} us that moving the task's inputs and outputs takes"
        ),
        advice="the program skips work, or the clock is wrong; report it with the run file",
    )


def doubtful_baseline(prepared: Prepared) -> str:
    """In words, that XLA's own time lies below what the task's bytes need; empty where not.

    XLA skips nothing, so the clock or the bound is wrong there. Speedups come out too small.
    """
    failure = too_fast(prepared.baseline, prepared.bound, prepared.baseline_program)
    return f"baseline: {failure.message}: the clock or the bound is wrong" if failure else ""


def verdict_of(prepared: Prepared, evaluation: Evaluation) -> Verdict:
    """A candidate against XLA. Times of different provenance are never compared."""
    baseline, mine = prepared.baseline, evaluation.time
    comparable = evaluation.accepted and mine is not None and mine.provenance == baseline.provenance
    comparable = comparable and not prepared.misfit
    speedup = baseline.seconds / mine.seconds if comparable and mine else None
    error = max(baseline.expected_error or 0.0, (mine.expected_error or 0.0) if mine else 0.0)
    doubt = doubt_of(prepared.baseline_program) or doubt_of(evaluation.program)
    claims = baseline.provenance != "bound" and not doubt
    return Verdict(
        evaluation=evaluation,
        baseline=baseline,
        bound=prepared.bound.time,
        speedup=speedup,
        faster=claims and speedup is not None and speedup > 1.0 + error,
        doubt=doubt,
        misfit=prepared.misfit,
    )
