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
    """XLA's compilation of the reference."""
    baseline_program: ProgramTime | None
    bound: Roofline
    compiler: str
    lint: LintResult
    """Which shortcuts pass this task's check."""
    schedule_problem: str = ""
    """Why the baseline's schedule could not be read, where it could not."""
    cases: tuple[InputCase, ...] = ()
    """Hard inputs that a tester thought of: candidates take turns on them, winners get all."""
