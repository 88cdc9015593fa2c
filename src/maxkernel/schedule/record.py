"""Remembers a few steps from the middle of a kernel's run: its DMAs and its waits for them.

Where the middle lies is known only afterwards. So a new window opens at every power of two of the
number of DMAs, and the last full one is kept: it starts after a quarter of the run or later.
"""

from __future__ import annotations

from typing import Literal

from maxkernel.schedule.copies import DmaSite
from maxkernel.types import TraceEvent

WINDOW = 48
"""Events of a window."""

_FIRST = 16
"""The DMA at which the second window opens; until then pipelines fill."""

Kind = Literal["in", "out", "copy", "wait"]
Event = tuple[bool, DmaSite, float, float]
"""Whether it is a wait; for what, from when, until when."""


class Recorder:
    """Windows of one op's events. Times are cycles of its core."""

    __slots__ = ("_best", "_count", "_next", "_open")

    def __init__(self) -> None:
        self._count = 0
        self._next = _FIRST
        self._open: list[Event] = []
        self._best: list[Event] = []

    def dma(self, site: DmaSite, start: float, end: float) -> None:
        """A DMA was issued at `start` and will be complete at `end`."""
        self._count += 1
        if self._count == self._next:
            self._best = self._longest()
            self._open = []
            self._next *= 2
        self._add((False, site, start, end))

    def wait(self, site: DmaSite, start: float, end: float) -> None:
        """The program waited for a DMA."""
        self._add((True, site, start, end))

    def events(self) -> tuple[TraceEvent, ...]:
        """The kept window, in order of start, in cycles from its first event."""
        kept = self._longest()
        zero = min((start for _, _, start, _ in kept), default=0.0)
        return tuple(
            TraceEvent(_kind(wait, site), site.name, round(start - zero, 1), round(end - zero, 1))
            for wait, site, start, end in sorted(kept, key=lambda event: event[2])
        )

    def _longest(self) -> list[Event]:
        """The longer window, the later one of two that are full."""
        return self._open if len(self._open) >= len(self._best) else self._best

    def _add(self, event: Event) -> None:
        if len(self._open) < WINDOW:
            self._open.append(event)


def _kind(wait: bool, site: DmaSite) -> Kind:
    if wait:
        return "wait"
    return "in" if site.reads else "out" if site.writes else "copy"
