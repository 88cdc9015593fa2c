"""Progress of a benchmark: which tasks run, in which stage, and an estimate of the rest."""

from __future__ import annotations

import threading
import time

from rich.console import Console

from maxkernel.bench import Row
from maxkernel.bench.render import cells
from maxkernel.judge import Prepared
from maxkernel.search import Progress
from maxkernel.types import Evaluation

STAGE_EVERY_SECONDS = 20.0
"""A task that runs for long says where it is this often."""


class BenchLines:
    """A `bench.BenchProgress` that prints one line per finished task, and a sign of life."""

    def __init__(self, tasks: int, *, quiet: bool) -> None:
        self._console = Console(stderr=True, quiet=quiet, highlight=False)
        self._tasks = tasks
        self._started = time.monotonic()
        self._finished = 0
        self._lock = threading.Lock()

    def started(self, task: str) -> Progress:
        """See BenchProgress."""
        return _TaskLines(self._console, task)

    def finished(self, row: Row, left: int) -> None:
        """See BenchProgress."""
        with self._lock:
            self._finished += 1
            elapsed = time.monotonic() - self._started
            rest = elapsed / self._finished * left
            shown = cells(row)
            self._console.print(
                f"[{self._tasks - left}/{self._tasks}] {row.task}: {shown[6]} {shown[3]} "
                f"({row.seconds:.0f} s; about {rest / 60:.0f} min left)",
                markup=False,
            )


class _TaskLines:
    def __init__(self, console: Console, task: str) -> None:
        self._console = console
        self._task = task
        self._last = time.monotonic()
        self._judged = 0

    def stage(self, name: str, design: int | None) -> None:
        """Prints the stage when nothing has been printed for a while."""
        now = time.monotonic()
        if now - self._last > STAGE_EVERY_SECONDS:
            self._last = now
            self._console.print(f"  {self._task}: {name}, {self._judged} judged", markup=False)

    def prepared(self, prepared: Prepared) -> None:
        """Nothing to say yet."""

    def evaluated(self, design: int, evaluation: Evaluation) -> None:
        """Counts."""
        self._judged += 1
