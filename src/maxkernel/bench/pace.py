"""Which tasks start first, and how long the rest of a table will take."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path

from maxkernel.bench.result import FILE_NAME, load_result
from maxkernel.errors import UsageError
from maxkernel.suites import Entry

BASE_SECONDS = 120.0
"""A guess for a task of which nothing is known; only its ratio to the next two matters."""
SECONDS_PER_MS = 6.0
"""Slow programs are large ones, which compile and check longer."""
PART_OF_LIMIT = 0.3
"""Of its own compile limit that a task with one is thought to need."""
LEAST_LEFT = 0.1
"""Part of its expected time that a task is thought to need still, however long it has run."""


def recorded_seconds(root: Path, suite: str) -> dict[str, float]:
    """Seconds that tasks took in earlier tables below `root`; the latest row of a task counts."""
    latest: dict[str, tuple[float, float]] = {}
    for path in root.glob(f"bench-{suite}-*/{FILE_NAME}"):
        try:
            rows = load_result(path).rows
        except UsageError:
            continue
        for row in rows:
            if row.outcome != "error" and row.made >= latest.get(row.task, (0.0, 0.0))[0]:
                latest[row.task] = (row.made, row.seconds)
    return {task: seconds for task, (_, seconds) in latest.items()}


def guessed_seconds(entry: Entry, edition: str) -> float:
    """From the published time and the entry's own compile limit, where there is no record."""
    published = (entry.published.xla_ms if entry.published else None) or 0.0
    own = entry.compile_seconds.get(edition, 0.0)
    return BASE_SECONDS + SECONDS_PER_MS * published + PART_OF_LIMIT * own


class Pace:
    """Thread-safe: what is running, what is done, what is expected of the rest."""

    def __init__(
        self, recorded: Mapping[str, float], guessed: Mapping[str, float], at_once: int
    ) -> None:
        self._recorded = {task: recorded[task] for task in guessed if task in recorded}
        self._guessed = dict(guessed)
        self._at_once = at_once
        self._started: dict[str, float] = {}
        self._took: dict[str, float] = {}
        self._lock = threading.Lock()

    def order(self) -> list[str]:
        """All tasks, the slowest first."""
        return sorted(self._guessed, key=self._before, reverse=True)

    def started(self, task: str) -> None:
        """A task begins."""
        with self._lock:
            self._started[task] = time.monotonic()

    def finished(self, task: str) -> None:
        """A task ends."""
        with self._lock:
            self._took[task] = time.monotonic() - self._started.pop(task)

    def rest(self) -> float:
        """Seconds until the last task ends: the work left over the tasks at once, or the longest
        single task, whichever is more."""
        with self._lock:
            now = time.monotonic()
            speed = self._speed(now)
            left = [
                max(expected - (now - began), LEAST_LEFT * expected)
                if (began := self._started.get(task)) is not None
                else expected
                for task in self._guessed
                if task not in self._took
                for expected in [self._before(task) * speed]
            ]
        return max(sum(left) / self._at_once, max(left, default=0.0))

    def _before(self, task: str) -> float:
        return self._recorded.get(task, self._guessed[task])

    def _speed(self, now: float) -> float:
        """How long finished tasks took, and late ones have taken, over what was expected before."""
        known = dict(self._took)
        for task, began in self._started.items():
            if now - began > self._before(task):
                known[task] = now - began
        expected = sum(self._before(task) for task in known)
        return sum(known.values()) / expected if expected else 1.0
