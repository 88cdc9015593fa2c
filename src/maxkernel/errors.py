"""Errors a user can cause or cure. Each message says what, where, the limit, the next step."""

from __future__ import annotations

EXIT_ACCEPTED = 0
EXIT_REFUSED = 1
EXIT_USAGE = 2
EXIT_ENVIRONMENT = 3


class MaxkernelError(Exception):
    """Base of every error that the command line prints without a traceback."""

    exit_status = EXIT_USAGE

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice


class UsageError(MaxkernelError):
    """The user asked for something that cannot be: a missing file, an unknown target ..."""


class TaskError(MaxkernelError):
    """The task cannot be judged as it stands: its file, its inputs or its reference is at fault."""


class TaskTimeout(TaskError):
    """A stage of the task itself (trace, baseline, lint) took longer than it may."""


class EnvironmentFault(MaxkernelError):
    """This machine lacks something that maxkernel needs."""

    exit_status = EXIT_ENVIRONMENT
