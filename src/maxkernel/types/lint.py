"""Whether a task can be passed without doing its work."""

from __future__ import annotations

import msgspec


class Shortcut(msgspec.Struct, frozen=True):
    """A program that does not do the work, tried against the task's own check."""

    name: str
    """`zeros`, `constant`, `row mean`, `stale output`, `ignores input 1`, `half of input 0`,
    `bf16 accumulation`."""
    passes: bool
    """True is a hole in the task."""
    excess: float
    """Largest ratio of its error to the allowance, over outputs; at most 1 passes."""
    max_abs: float
    """Its largest error: an atol below it (and a small rtol) would refuse it."""


class LintResult(msgspec.Struct, frozen=True):
    """All shortcuts tried on one seed."""

    shortcuts: tuple[Shortcut, ...]

    @property
    def holes(self) -> tuple[Shortcut, ...]:
        """The shortcuts that pass."""
        return tuple(s for s in self.shortcuts if s.passes)
