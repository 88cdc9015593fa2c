"""Calibrates the clock: measures the microkernels on a TPU and fits the constants on them."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence

import msgspec

from maxkernel.errors import EnvironmentFault
from maxkernel.executor import Executor
from maxkernel.judge import find_tpu
from maxkernel.judge.desk import failure_of
from maxkernel.judge.stopwatch import measured
from maxkernel.schedule.calibrated import CalibrationFile, FileRow
from maxkernel.schedule.calibration import CalibrationError, Fit, Row, fit, probes, work_of
from maxkernel.schedule.constants import clock_of
from maxkernel.suites.microkernels import MICROKERNELS, Microkernel, task_of
from maxkernel.targets import TARGETS, Target
from maxkernel.types import Failure, Task
from maxkernel.types.messages import (
    CompileReply,
    CompileRequest,
    MeasureReply,
    MeasureRequest,
    Reply,
    TraceReply,
    TraceRequest,
)

REPETITIONS = 10
"""Of each microkernel; their median counts."""
_ANY_SIZE = 1 << 40
_AGAIN = "end other programs that use the TPU and calibrate again"

Measure = Callable[[Task, bytes], float]
"""Seconds that a program takes on the task's inputs. Raises EnvironmentFault."""
Progress = Callable[[int, int, str], None]
"""Called with how many microkernels are done, how many there are, and the next one's name."""


class Calibrated(msgspec.Struct, frozen=True):
    """What a calibration found."""

    content: CalibrationFile
    skipped: tuple[str, ...]
    """Microkernels without a time, and why."""


def target_here(executor: Executor) -> Target:
    """The target that this machine's TPU is. Raises EnvironmentFault where there is none."""
    found = find_tpu(executor)
    if isinstance(found, Failure):
        raise _fault("no TPU can be measured", found)
    for target in TARGETS.values():
        if target.device_kind == found.kind:
            return target
    raise EnvironmentFault(
        f"this machine has a {found.kind}, which maxkernel does not know",
        f"known: {', '.join(target.device_kind for target in TARGETS.values())}",
    )


def on_device(executor: Executor, target: Target) -> Measure:
    """Measures on this machine's TPU: the median of the repetitions by the device's own clock."""
    seeds = tuple(range(1, REPETITIONS + 1))

    def measure(task: Task, program: bytes) -> float:
        request = MeasureRequest(task, (program,), target.name, seeds)
        reply = executor.submit(request).result()
        if not isinstance(reply, MeasureReply):
            raise _fault(f"{task.name} has no measured time", reply)
        try:
            found = measured(task.name, reply.samples[0], reply.dispatch)
        except ValueError as error:
            raise EnvironmentFault(f"no measured time: {error}", _AGAIN) from error
        if found.wall.agrees is False:
            raise EnvironmentFault(f"{task.name} has no measured time: {found.wall.text}", _AGAIN)
        return found.time.seconds

    return measure


def calibrate(
    executor: Executor,
    target: Target,
    measure: Measure,
    progress: Progress = lambda done, count, name: None,
    microkernels: Sequence[Microkernel] = MICROKERNELS,
) -> Calibrated:
    """Compiles, simulates and measures the microkernels, and fits the clock's constants.

    A microkernel without a time is left out and named. Raises EnvironmentFault where the others do
    not give the constants.
    """
    rows: list[Row] = []
    skipped: list[str] = []
    compiler = ""
    for done, item in enumerate(microkernels):
        progress(done, len(microkernels), item.name)
        try:
            row, compiler = _row(executor, target, measure, item)
            rows.append(row)
        except EnvironmentFault as fault:
            skipped.append(f"{item.name}: {fault.message}")
    try:
        found = fit(rows, clock_of(target))
    except CalibrationError as error:
        more = f"; without a time: {skipped[0]}" if skipped else ""
        raise EnvironmentFault(f"the clock cannot be calibrated: {error}{more}", _AGAIN) from error
    return Calibrated(_content(target, compiler, rows, found), tuple(skipped))


def _row(
    executor: Executor, target: Target, measure: Measure, item: Microkernel
) -> tuple[Row, str]:
    """A microkernel's work and measured time, and the compiler's versions."""
    task, base = task_of(item), clock_of(target)
    traced = executor.submit(TraceRequest(task, target.name, _ANY_SIZE)).result()
    if not isinstance(traced, TraceReply):
        raise _fault("it cannot be traced", traced)
    program = traced.info.reference_tpu
    request = CompileRequest(program, target.name, probes=probes(base))
    compiled = executor.submit(request).result()
    if not isinstance(compiled, CompileReply):
        raise _fault("it does not compile", compiled)
    if not compiled.probed:
        raise EnvironmentFault(f"its schedule cannot be read: {compiled.schedule_problem}")
    work = work_of(compiled.probed, base)
    row = Row(item.name, item.kind, work, measure(task, program), item.fits)
    return row, compiled.compiler


def _content(target: Target, compiler: str, rows: Sequence[Row], found: Fit) -> CalibrationFile:
    return CalibrationFile(
        format="maxkernel-calibration-1",
        target=target.name,
        device=target.device_kind,
        compiler=compiler,
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        clock=found.clock,
        residual=found.residual,
        expected_error=found.expected_error,
        rows=tuple(
            FileRow(row.name, row.kind, row.measured, left.ratio, row.fits, left.outlier)
            for row, left in zip(rows, found.residuals, strict=True)
        ),
    )


def _fault(what: str, reply: Reply | Failure) -> EnvironmentFault:
    failure = reply if isinstance(reply, Failure) else failure_of(reply, "time")
    return EnvironmentFault(f"{what}: {failure.message}", failure.advice)
