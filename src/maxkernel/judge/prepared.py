"""A task that is ready to be judged."""

from __future__ import annotations

import msgspec

from maxkernel.judge.bound import Roofline
from maxkernel.targets import Target
from maxkernel.types import InputCase, LintResult, ProgramTime, Task, TaskInfo, Time


class Prepared(msgspec.Struct, frozen=True):
    """A task that is ready to be judged on a target: traced, its baseline compiled and timed."""

    task: Task
    info: TaskInfo
    target: Target
    baseline: Time
    """XLA's compilation of the reference; the roofline bound where there is a `misfit`."""
    baseline_program: ProgramTime | None
    bound: Roofline
    compiler: str
    lint: LintResult
    """Which shortcuts pass this task's check."""
    schedule_problem: str = ""
    """Why the baseline's schedule could not be read, where it could not."""
    misfit: str = ""
    """Why XLA's program cannot run on the target at all: it needs more memory than there is."""
    cases: tuple[InputCase, ...] = ()
    """Hard inputs that a tester thought of: candidates take turns on them, winners get all."""

    @property
    def xla(self) -> Time | None:
        """The time of XLA's program, None where it cannot run."""
        return None if self.misfit else self.baseline
