"""A proposed kernel: source text and one assignment of its tunables."""

from __future__ import annotations

import hashlib
import json

import msgspec

Tunable = int | float | bool | str
TunableSpace = dict[str, tuple[Tunable, ...]]
"""Choices of every tunable; the first one is the default."""


class Candidate(msgspec.Struct, frozen=True):
    """A kernel's source and one assignment of its tunables (missing ones take their default)."""

    source: str
    tunables: dict[str, Tunable] = {}

    @property
    def digest(self) -> str:
        """SHA-256 of source and tunables."""
        text = self.source + "\0" + json.dumps(self.tunables, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()
