"""Progress of a benchmark: which tasks run, in which stage, and an estimate of the rest."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.text import Text

from maxkernel.bench import Row
from maxkernel.bench.pace import Pace
from maxkernel.bench.render import cells
from maxkernel.judge import Prepared
from maxkernel.search import Progress
from maxkernel.types import Evaluation

EVERY_SECONDS = 30.0
"""Where there is no terminal to redraw, a line says this often where the tasks are."""


class BenchLines:
    """A `bench.BenchProgress`: one line per finished task, and a status that stays current."""

    def __init__(self, tasks: int, *, quiet: bool, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, quiet=quiet, highlight=False)
        self._tasks = tasks
        self._done = 0
        self._faster = 0
        self._pace: Pace | None = None
        self._running: dict[str, _TaskState] = {}
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._live: Live | None = None

    def __enter__(self) -> BenchLines:
        if self._console.is_terminal and not self._console.quiet:
            self._live = Live(
                get_renderable=self.status,
                console=self._console,
                refresh_per_second=2,
                transient=True,
            )
            self._live.start()
        else:
            threading.Thread(target=self._tick, name="bench-progress", daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closed.set()
        if self._live is not None:
            self._live.stop()

    def begins(self, kept: Sequence[Row], pace: Pace) -> None:
        """See BenchProgress."""
        with self._lock:
            self._pace, self._done = pace, len(kept)
            self._faster = sum(row.outcome == "faster" for row in kept)
        if kept:
            left = self._tasks - len(kept)
            self._say(f"{len(kept)} rows are kept from before; {left} tasks to run")

    def started(self, task: str) -> Progress:
        """See BenchProgress."""
        state = _TaskState(task)
        with self._lock:
            self._running[task] = state
        return state

    def finished(self, row: Row, left: int) -> None:
        """See BenchProgress."""
        with self._lock:
            self._running.pop(row.task, None)
            self._done = self._tasks - left
            self._faster += row.outcome == "faster"
            done = self._done
        shown = cells(row)
        why = f": {shown[10]}" if row.outcome in ("error", "timeout", "none", "refused") else ""
        self._say(
            f"[{done}/{self._tasks}] {row.task}: {shown[6]} {shown[3]} ({row.seconds:.0f} s, "
            f"{row.evaluations} evaluations){why}; {self._rest()}"
        )

    def _tick(self) -> None:
        while not self._closed.wait(EVERY_SECONDS):
            self._say(self.status().plain)

    def _say(self, text: str) -> None:
        self._console.print(Text(text), soft_wrap=True)

    def status(self) -> Text:
        """Elapsed time, what is done, where each running task is, an estimate of the rest."""
        with self._lock:
            running = [state.describe() for state in self._running.values()]
            done = f"{self._done}/{self._tasks} tasks, {self._faster} faster"
        elapsed = _clock(time.monotonic() - self._began)
        return Text("  " + " | ".join([elapsed, done, *running, self._rest()]), overflow="fold")

    def _rest(self) -> str:
        return f"about {_clock(self._pace.rest())} left" if self._pace is not None else "starting"


class _TaskState:
    """A `Progress` that remembers where its task is."""

    def __init__(self, task: str) -> None:
        self._task = task
        self._began = time.monotonic()
        self._stages: dict[int | None, str] = {None: "starting"}
        self._judged: set[str] = set()
        self._accepted = 0

    def stage(self, name: str, design: int | None) -> None:
        """See Progress."""
        if design is not None:
            self._stages.pop(None, None)
        self._stages[design] = name

    def prepared(self, prepared: Prepared) -> None:
        """Nothing to say yet."""

    def evaluated(self, design: int, evaluation: Evaluation) -> None:
        """Counts a judged candidate."""
        self._stages.pop(design, None)
        if evaluation.candidate.digest not in self._judged:
            self._judged.add(evaluation.candidate.digest)
            self._accepted += evaluation.accepted

    def describe(self) -> str:
        """The task, its stages, what was judged, for how long."""
        stages = list(dict.fromkeys(list(self._stages.values())))
        judged = f", {len(self._judged)} judged, {self._accepted} accepted" if self._judged else ""
        where = " + ".join(stages[-2:]) or "search"
        return f"{self._task}: {where}{judged}, {_clock(time.monotonic() - self._began)}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
