"""What a lint says: which shortcuts pass a task's check, and how to close the holes."""

from __future__ import annotations

from maxkernel.errors import TaskError
from maxkernel.types import LintResult, Shortcut


def advise(shortcut: Shortcut) -> str:
    """How to close the hole that this shortcut found."""
    name = shortcut.name
    if name.startswith("ignores input"):
        return (
            "let that input vary with the key and matter to the outputs: an input that is always "
            "the same, or far too small to matter, may be left out of a kernel"
        )
    if name.startswith("half of input"):
        return "scale the inputs so that every part of them matters, or tighten the tolerance"
    if name == "bf16 accumulation":
        return f"an atol and rtol that allow less than {shortcut.max_abs:.2g} would refuse it"
    return (
        "make the outputs depend on the inputs by more than the tolerance allows: zero-mean "
        "inputs, weights scaled by fan-in, affine parameters that vary; or a tolerance that "
        f"allows less than {shortcut.max_abs:.2g}"
    )


def describe_holes(result: LintResult) -> str:
    """The holes in one line; empty when there are none."""
    return "; ".join(f"`{hole.name}` passes" for hole in result.holes)


def require_sound(task: str, result: LintResult) -> None:
    """Raises TaskError when a task can be passed without doing its work."""
    if not result.holes:
        return
    raise TaskError(
        f"{task}: its check can be passed without doing the work: {describe_holes(result)}; "
        "a speedup on it would mean nothing",
        f"{advise(result.holes[0])}; or pass --allow-weak-task, and the report says so",
    )
