"""How many threads of this program and its workers had work at a time."""

from __future__ import annotations

import os
import threading

from benchmarks.cpu import stat_of
from maxkernel.executor.tree import family

PAUSE = 0.5
"""Seconds between two looks at what runs: a look takes a few milliseconds, which count."""


class Busy(threading.Thread):
    """Counts threads that run or could run, but for its own, up to so many as there are cores."""

    def __init__(self, cores: int) -> None:
        super().__init__(daemon=True)
        self._cores = cores
        self._samples: list[int] = []
        self._over = threading.Event()

    def run(self) -> None:
        """Until it is told to stop."""
        me = threading.get_native_id()
        while not self._over.wait(PAUSE):
            self._samples.append(sum(_runnable(pid, me) for pid in family(os.getpid())))

    def lap(self) -> float:
        """The share of the cores that there was work for since the start, or the last lap."""
        samples, self._samples = self._samples, []
        return sum(min(self._cores, n) for n in samples) / (self._cores * max(1, len(samples)))

    def stop(self) -> None:
        """Ends the counting."""
        self._over.set()
        self.join()


def _runnable(pid: int, me: int) -> int:
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return 0
    others = [thread for thread in threads if int(thread) != me]
    return sum(stat_of(f"/proc/{pid}/task/{thread}/stat")[:1] == [b"R"] for thread in others)
