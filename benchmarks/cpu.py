"""Processor time of this program's processes and of the machine, sampled; and spans of time."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from maxkernel.executor.tree import family, read

TICK = os.sysconf("SC_CLK_TCK")
SAMPLE_SECONDS = 0.2

Interval = tuple[float, float]


class CpuMeter:
    """Samples the processor time of this process's tree, and of the machine."""

    def __init__(self) -> None:
        self.samples: list[tuple[float, float, float]] = []
        """(when, seconds of the tree, idle seconds of the machine) since some beginning."""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """No more samples."""
        self._over.set()
        self._thread.join()

    def used(self, phase: Sequence[Interval]) -> tuple[float, float, float]:
        """(wall, seconds of the tree, idle seconds of all cores) within a phase."""
        wall = tree = idle = 0.0
        for (a, tree_a, idle_a), (b, tree_b, idle_b) in itertools.pairwise(self.samples):
            if any(start <= a and b <= end for start, end in phase):
                wall, tree, idle = wall + b - a, tree + tree_b - tree_a, idle + idle_b - idle_a
        return wall, tree, idle

    def _run(self) -> None:
        while not self._over.wait(SAMPLE_SECONDS):
            self.samples.append((time.monotonic(), tree_seconds(), idle_seconds()))


def tree_seconds() -> float:
    """Processor seconds of this process, its descendants, and those of them that have ended.

    What a process used before it was reaped is in its parent's time.
    """
    fields = [stat_of(f"/proc/{pid}/stat")[11:15] for pid in family(os.getpid())]
    return sum(int(ticks) for four in fields for ticks in four) / TICK


def stat_of(path: str) -> list[bytes]:
    """Fields of a process's or a thread's `stat` from the state on; none of what has gone."""
    return read(path).rpartition(b")")[2].split()


def idle_seconds() -> float:
    """Seconds that the machine's cores were idle, since it started."""
    fields = Path("/proc/stat").read_text().splitlines()[0].split()
    return (int(fields[4]) + int(fields[5])) / TICK


def union(intervals: Sequence[Interval]) -> list[Interval]:
    """The intervals without overlaps, in order."""
    joined: list[Interval] = []
    for start, end in sorted(intervals):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def length(intervals: Sequence[Interval]) -> float:
    """Seconds in which at least one of the intervals lasts."""
    return sum(end - start for start, end in union(intervals))


def crowded(intervals: Sequence[Interval], at_least: int) -> list[Interval]:
    """Where at least so many of the intervals last at once."""
    changes = sorted([(a, 1) for a, _ in intervals] + [(b, -1) for _, b in intervals])
    found, count, since = list[Interval](), 0, 0.0
    for at, change in changes:
        if count < at_least <= count + change:
            since = at
        elif count + change < at_least <= count:
            found.append((since, at))
        count += change
    return found
