"""Exceptions and compiler messages as typed failures: kind, useful lines, source line, advice."""

from __future__ import annotations

import re
import traceback
from typing import NoReturn

from maxkernel.types.evaluation import Failure, FailureKind, Stage
from maxkernel.types.task import Task

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
    line = _line_in(error, tuple(task.files))
    where = f"{task.entry}:{line}" if line else task.entry
    return Refused(
        Failure(
            "trace",
            kind,
            f"{where}: {what}: {type(error).__name__}: {first_line(str(error))}",
            advice or "run the task's file on its own to see the whole error",
            useful_lines(str(error)),
            line,
        )
    )


def candidate_failure(error: BaseException, stage: Stage) -> Failure:
    """The failure of a candidate's code, or of lowering or compiling it."""
    text = str(error)
    line = _line_in(error, (CANDIDATE_FILE,)) or _line_in_text(text)
    kind, advice = classify(error, stage)
    where = f"{CANDIDATE_FILE}:{line}: " if line else ""
    return Failure(
        stage,
        kind,
        f"{where}{type(error).__name__}: {first_line(text)}",
        advice,
        useful_lines(text),
        line,
    )


def classify(error: BaseException, stage: Stage) -> tuple[FailureKind, str]:
    """Kind and advice for an exception that capture or compile ended with."""
    name, text = type(error).__name__, str(error)
    for kind, names, pattern, advice in _RULES:
        if names and not any(base.__name__ in names for base in type(error).__mro__):
            continue
        if pattern is None or re.search(pattern, text, re.IGNORECASE | re.DOTALL):
            return kind, _moved_name(text) or advice if kind == "api" else advice
    if stage == "compile" or name in ("VerificationError", "MLIRError", "JaxRuntimeError"):
        return "compile", "read the compiler's lines and change the operation that they name"
    return "trace", "run kernel(*inputs) under jax.make_jaxpr to see the whole traceback"


_RULES: tuple[tuple[FailureKind, tuple[str, ...], str | None, str], ...] = (
    (
        "syntax",
        ("SyntaxError",),
        None,
        "the source must be a Python file that defines kernel(*inputs, **tunables)",
    ),
    (
        "memory",
        ("MemoryError",),
        None,
        "tracing needs no big arrays: build them inside the kernel, or take them as inputs",
    ),
    (
        "vmem",
        (),
        r"memory space (vmem|smem)|exceeded (scoped )?(vmem|smem)|"
        r"(scoped vmem|smem|vmem)[^\n]*(limit|exceed|exhaust|out of memory)|"
        r"(out of memory|exhausted)[^\n]*(vmem|smem)",
        "use smaller blocks or less scratch; each BlockSpec block is held twice, and"
        " pltpu.CompilerParams(vmem_limit_bytes=...) raises the scoped limit up to the chip's",
    ),
    (
        "hbm",
        (),
        r"memory space hbm|(out of memory|exhausted|exceed)[^\n]*hbm|hbm[^\n]*(exceed|exhausted)",
        "the program keeps more arrays in HBM than the chip has: fuse steps or use smaller dtypes",
    ),
    (
        "api",
        ("ImportError", "AttributeError"),
        None,
        "this name does not exist in the installed jax",
    ),
    ("api", ("TypeError",), r"unexpected keyword argument", "the installed jax names it otherwise"),
    (
        "block_shape",
        (),
        r"last two dimensions of your block shape|block shape[^\n]*(divisible|multiple)|"
        r"rank of[^\n]*block|block_shape|index_map|should be divisible by the tiling|"
        r"tiling|not aligned",
        "the last two block dimensions must be multiples of 8 (16 for 16-bit, 32 for 8-bit types)"
        " and 128, or equal the array's",
    ),
    (
        "unsupported",
        (),
        r"unimplemented primitive|not implemented|unsupported|not supported|cannot be lowered|"
        r"can't be lowered|has no lowering",
        "this operation has no lowering in Pallas TPU kernels: express it with elementwise ops,"
        " reductions, jnp.dot and slices, or do it outside the kernel",
    ),
    ("unsupported", ("NotImplementedError",), None, "write it with operations that TPUs have"),
    (
        "trace",
        ("TracerBoolConversionError", "ConcretizationTypeError", "TracerArrayConversionError"),
        None,
        "values inside a kernel are traced: use pl.when, jnp.where or lax.cond, and shapes or"
        " tunables for what must be known at compile time",
    ),
    (
        "trace",
        ("TypeError", "ValueError"),
        r"out of bounds|incompatible shapes|got shapes|broadcast",
        "check shapes and dtypes of the operands in the named line",
    ),
)
"""First match wins: kind, exception types (empty: any), pattern in the message, advice."""

MOVED_NAMES = {
    "TPUCompilerParams": "pltpu.CompilerParams",
    "TPUMemorySpace": "pltpu.MemorySpace",
    "ANY": "pl.ANY",
    "dma_start": "pltpu.async_copy or pltpu.make_async_copy(...).start()",
    "TPUInterpretParams": "pltpu.InterpretParams",
    "tree_map": "jax.tree.map",
    "tree_multimap": "jax.tree.map",
    "maps": "jax.shard_map",
    "xmap": "jax.shard_map",
    "pjit": "jax.jit",
    "interpret_call": "pl.pallas_call(..., interpret=True)",
    "load": "ref[...] (indexing)",
    "store": "ref[...] = value (indexing)",
    "repeat": "jnp.tile or jnp.broadcast_to",
}
"""Names that older Pallas code uses, with what jax 0.10 calls them."""


def _moved_name(text: str) -> str:
    for name in re.findall(r"['\"](\w+)['\"]", text):
        if name in MOVED_NAMES:
            return f"{name} is gone: use {MOVED_NAMES[name]}"
    match = re.search(r"unexpected keyword argument '(\w+)'", text)
    if match:
        return f"remove or rename the keyword {match[1]}: the installed jax does not take it"
    return ""


def first_line(text: str, limit: int = 300) -> str:
    """The first line of a message that says something, cut at `limit` characters."""
    line = next((part.strip() for part in text.splitlines() if part.strip()), "")
    return line if len(line) <= limit else line[: limit - 3] + "..."


_NOISE = re.compile(
    r"^\s*(#\d+ 0x|@ 0x|\*\*\* |={5,}|-{5,}|The stack trace below|For simplicity, JAX has removed)"
)


def useful_lines(text: str) -> str:
    """A message without stack frames of the compiler and rulers, at most `DETAIL_LIMIT`."""
    lines = [line.rstrip() for line in text.splitlines() if not _NOISE.match(line)]
    kept = "\n".join(line for line in lines if line)
    return kept if len(kept) <= DETAIL_LIMIT else kept[: DETAIL_LIMIT - 4] + "\n..."


def _line_in(error: BaseException, names: tuple[str, ...]) -> int | None:
    """The innermost line of one of these files that the traceback passes."""
    if isinstance(error, SyntaxError) and error.lineno:
        return error.lineno
    found: int | None = None
    for frame in traceback.extract_tb(error.__traceback__):
        if any(frame.filename == name or frame.filename.endswith("/" + name) for name in names):
            found = frame.lineno
    cause = error.__cause__ or error.__context__
    return found if found or cause is None else _line_in(cause, names)


def _line_in_text(text: str) -> int | None:
    match = re.search(rf"{re.escape(CANDIDATE_FILE)}[\":]*(?:, line |:)(\d+)", text)
    return int(match[1]) if match else None
