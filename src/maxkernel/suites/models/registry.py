"""Twenty-four workloads of current open models."""

from __future__ import annotations

from maxkernel.suites.entry import Entry

EDITIONS = ("hardened",)

ENTRIES: tuple[Entry, ...] = ()
