"""Exceptions and compiler messages as typed failures: kind, useful lines, source line, advice."""

from __future__ import annotations

import re
import traceback
from typing import NoReturn

from maxkernel.types.evaluation import Failure, FailureKind, Stage
from maxkernel.types.task import Task
from maxkernel.worker.diagnosis import diagnose

CANDIDATE_FILE = "kernel.py"
"""File name under which a candidate's source is compiled, so that tracebacks name its lines."""

DETAIL_LIMIT = 4000
"""Characters of Python's or the compiler's own message that a failure keeps."""


class Refused(Exception):
    """Carries a finished failure out of nested code."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def refuse(stage: Stage, kind: FailureKind, message: str, advice: str = "") -> NoReturn:
    """Raises Refused with this failure."""
    raise Refused(Failure(stage, kind, message, advice))


def task_failure(
    error: BaseException, task: Task, what: str, kind: FailureKind, advice: str = ""
) -> Refused:
    """The failure of a task's own code: `what` says what went wrong, with the task's line."""
    if isinstance(error, Refused):
        return error
    file, line = _place(error, tuple(task.files))
    where = f"{file}:{line}" if line else task.entry
    text = str(error)
    return Refused(
        Failure(
            "trace",
            kind,
            f"{where}: {what}: {type(error).__name__}: {first_line(text)}",
            advice or "run the task's file on its own to see the whole error",
            useful_lines(text),
            line,
        )
    )


def candidate_failure(error: BaseException, stage: Stage) -> Failure:
    """The failure of a candidate's code, or of lowering, compiling or running it."""
    if isinstance(error, Refused):
        return error.failure
    text = str(error)
    line = _place(error, (CANDIDATE_FILE,))[1] or _line_in_text(text)
    kind, advice = diagnose(error, stage)
    where = f"{CANDIDATE_FILE}:{line}: " if line else ""
    message = f"{where}{type(error).__name__}: {_block(text) or first_line(text)}"
    return Failure(stage, kind, message, advice, useful_lines(text), line)


def first_line(text: str, limit: int = 300) -> str:
    """The first line of a message that says something, cut at `limit` characters."""
    line = next((part.strip() for part in text.splitlines() if part.strip()), "")
    line = re.sub(r"\.? Please (file an issue|report a bug)[^\n]*", "", line)
    return line if len(line) <= limit else line[: limit - 3] + "..."


_NOISE = re.compile(
    r"^\s*(#\d+ 0x|@ 0x|\*\*\* |={5,}|-{5,}|XLA label:|\[type\.googleapis|For simplicity, JAX has|"
    r"Please (file|report)|See (details at )?https?:|The stack trace below)"
)


def useful_lines(text: str) -> str:
    """A message without the compiler's own stack, rulers and links, at most `DETAIL_LIMIT`."""
    lines = [line.rstrip() for line in text.splitlines() if not _NOISE.match(line)]
    kept = "\n".join(line for line in lines if line)
    return kept if len(kept) <= DETAIL_LIMIT else kept[: DETAIL_LIMIT - 4] + "\n..."


def _block(text: str) -> str:
    """The operand, block and array that a message about a block shape is about."""
    found = re.search(
        r"Block spec for (?P<operand>\S+) in [^\n]*?has block shape (?P<block>\(.*?\)),"
        r" array shape (?P<array>\([^)]*\))",
        text,
    )
    if found is None:
        return ""
    sizes = re.findall(r"block_size=(\d+)|\b(\d+)\b|(Squeezed|None)", found["block"])
    block = ", ".join(a or b or "None" for a, b, _ in sizes)
    return f"the block ({block}) of {found['operand']} does not fit its array {found['array']}"


def _place(error: BaseException, names: tuple[str, ...]) -> tuple[str, int | None]:
    """File and line of the innermost frame in one of these files, causes included."""
    if isinstance(error, SyntaxError) and error.lineno:
        return (error.filename or "").rsplit("/", 1)[-1], error.lineno
    found: tuple[str, int | None] = ("", None)
    for frame in traceback.extract_tb(error.__traceback__):
        name = next((n for n in names if ("/" + frame.filename).endswith("/" + n)), None)
        if name is not None:
            found = (name, frame.lineno)
    cause = error.__cause__ or error.__context__
    return found if found[1] or cause is None else _place(cause, names)


def _line_in_text(text: str) -> int | None:
    match = re.search(rf"{re.escape(CANDIDATE_FILE)}[\":]*(?:, line |:)(\d+)", text)
    return int(match[1]) if match else None
