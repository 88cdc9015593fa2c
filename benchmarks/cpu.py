"""Processor time of this program's processes and of the machine, sampled; and spans of time."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

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
            self.samples.append((time.monotonic(), self._tree_seconds(), idle_seconds()))

    def _tree_seconds(self) -> float:
        """Of live processes; what a process used before it was reaped is in its parent's time."""
        return sum(process_seconds(pid) for pid in tree_of(os.getpid()))


def tree_of(root: int) -> list[int]:
    """A process and everything below it."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := stat_of(int(entry.name))) is not None:
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found, queue = list[int](), [root]
    while queue:
        pid = queue.pop()
        found.append(pid)
        queue += children.get(pid, [])
    return found


def stat_of(pid: int) -> list[str] | None:
    """Fields of /proc/PID/stat from the state on; None for a process that has gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def process_seconds(pid: int) -> float:
    """Processor seconds of a process and of its children that it has waited for."""
    fields = stat_of(pid)
    return sum(map(int, fields[11:15])) / TICK if fields is not None else 0.0


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
