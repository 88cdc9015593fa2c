"""The one exception of this room: a schedule that cannot be read or run."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Literal

ProblemKind = Literal[
    "missing", "truncated", "foreign", "unknown_control", "endless_loop", "collective"
]


class ScheduleError(Exception):
    """A dump that cannot be simulated; the message names what was seen and where.

    `kind` is `missing` (no schedule in the folder), `truncated` (a file ends early), `foreign`
    (text that is not a bundle dump), `unknown_control` (an instruction that may steer the program
    and is not known), `endless_loop` (the step limit was reached) or `collective` (the program
    talks to other chips).
    """

    def __init__(self, kind: ProblemKind, message: str) -> None:
        super().__init__(message)
        self.kind: ProblemKind = kind


@contextmanager
def reading(what: str) -> Generator[None]:
    """Turns what damaged text makes of its reader into ScheduleError(`foreign`) that names it."""
    try:
        yield
    except ScheduleError:
        raise
    except (ArithmeticError, AssertionError, LookupError, OSError, RecursionError, SyntaxError,
            TypeError, ValueError) as error:  # fmt: skip
        raise ScheduleError(
            "foreign",
            f"{what}: not a schedule as this reader knows them: {type(error).__name__}: "
            f"{str(error)[:200]}",
        ) from error
