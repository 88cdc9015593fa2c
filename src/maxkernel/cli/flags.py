"""Options that several commands share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Flags:
    """How a command prints, and what it allows."""

    as_json: bool = False
    unsafe: bool = False
    """Kernels may run without a sandbox where there is none."""
    use_cache: bool = True
    allow_weak: bool = False
    """Tasks that fail the lint are judged too."""
    use_memory: bool = True
    """Graph searches learn from earlier tasks."""
