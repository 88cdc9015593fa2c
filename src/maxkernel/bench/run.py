"""Runs a suite: finished rows are kept, unfinished tasks go on where they stopped."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from maxkernel.api import Session
from maxkernel.bench.pace import Pace, guessed_seconds, recorded_seconds
from maxkernel.bench.result import FORMAT, BenchResult, Row, load_result, save_result
from maxkernel.bench.settings import code_digest, stages
from maxkernel.bench.task import Job, Method, run_task
from maxkernel.engineers.roles import Stopped
from maxkernel.errors import UsageError
from maxkernel.judge import Prepared
from maxkernel.search import Progress, Silent
from maxkernel.suites import Edition, Suite, entry, expert, load
from maxkernel.types import Evaluation

AT_ONCE = 2
"""Tasks in flight: one plans or checks while the other compiles."""


class BenchProgress(Protocol):
    """Somebody who watches a benchmark. Called from several threads."""

    def begins(self, kept: Sequence[Row], pace: Pace) -> None:
        """`kept` rows need no work; `pace` knows the rest and estimates its time."""
        ...

    def started(self, task: str) -> Progress:
        """A task begins; its run reports to the result."""
        ...

    def finished(self, row: Row, left: int) -> None:
        """A row is there; `left` tasks remain."""
        ...


class Quiet:
    """Nobody watches."""

    def begins(self, kept: Sequence[Row], pace: Pace) -> None:
        """Ignored."""

    def started(self, task: str) -> Progress:
        """Ignored."""
        return Silent()

    def finished(self, row: Row, left: int) -> None:
        """Ignored."""


def run_bench(
    session: Session,
    names: Sequence[str],
    method: Method,
    folder: Path,
    *,
    at_once: int = AT_ONCE,
    progress: BenchProgress | None = None,
) -> BenchResult:
    """Runs the tasks `names` of a suite, the slowest first, and returns the table.

    `folder` keeps the table and every run. Rows of the same task text, compiler and clock are
    taken from it, but for errors and timeouts, which are tried again. An exception (Ctrl-C too)
    leaves the finished rows there, and closes the session's workers.
    """
    recorded = recorded_seconds(folder.parent, method.settings.suite)
    jobs = {name: _job(method, name) for name in names}
    table = _Table(session, method, folder, jobs)
    inner = msgspec.structs.replace(session.settings, runs_dir=str(folder / "runs"))
    session = Session(session.executor, session.judge, session.target, inner)
    code_digest()
    edition = method.settings.edition
    todo = {n: guessed_seconds(jobs[n].entry, edition) for n in names if n not in table.rows}
    pace = Pace(recorded, todo, at_once)
    _Crew(session, method, table, pace, progress or Quiet()).work(at_once)
    return table.result()


class _Table:
    """The rows so far, in memory and on disk."""

    def __init__(
        self, session: Session, method: Method, folder: Path, jobs: dict[str, Job]
    ) -> None:
        self._session, self._settings, self._folder = session, method.settings, folder
        self.jobs = jobs
        self._lock = threading.Lock()
        known = self._known()
        self.rows = {row.task: row for row in known if self._reusable(row)}
        self._others = tuple(row for row in known if row.task not in jobs)
        self._save()

    def add(self, row: Row) -> int:
        """Stores a row; the number of tasks without one."""
        with self._lock:
            self.rows[row.task] = row
            self._save()
            return len(self.jobs) - len(self.rows)

    def result(self) -> BenchResult:
        """The table as it stands, in the order of the tasks asked for."""
        rows = tuple(self.rows[name] for name in self.jobs if name in self.rows)
        return BenchResult(
            FORMAT,
            self._settings,
            self._session.judge.versions,
            time.time(),
            rows,
            self._session.executor.sandbox,
            stages(),
            len(self.jobs),
        )

    def _save(self) -> None:
        """Rows of tasks that were not asked for this time stay in the file."""
        asked = self.result()
        save_result(self._folder, msgspec.structs.replace(asked, rows=asked.rows + self._others))

    def _known(self) -> tuple[Row, ...]:
        """The rows in the folder; runs of another compiler or clock are set aside."""
        try:
            known = load_result(self._folder)
        except UsageError:
            return ()
        if (known.versions, known.stages) == (self._session.judge.versions, stages()):
            return known.rows
        runs = self._folder / "runs"
        if runs.exists():
            runs.rename(self._folder / f"runs-before-{time.strftime('%Y%m%d-%H%M%S')}")
        return ()

    def _reusable(self, row: Row) -> bool:
        job = self.jobs.get(row.task)
        same = job is not None and job.task.digest == row.digest
        return same and row.outcome not in ("error", "timeout")


class _Crew:
    """Threads that take tasks from a queue until it is empty or something raises."""

    def __init__(
        self,
        session: Session,
        method: Method,
        table: _Table,
        pace: Pace,
        progress: BenchProgress,
    ) -> None:
        self._session, self._method, self._table = session, method, table
        self._pace, self._progress = pace, progress
        self._stopped = threading.Event()
        self._queue: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._faults: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

    def work(self, at_once: int) -> None:
        self._progress.begins(list(self._table.rows.values()), self._pace)
        order = self._pace.order()
        for name in order:
            self._queue.put(name)
        count = min(at_once, len(order))
        for number in range(count):
            threading.Thread(target=self._take, name=f"task-{number}", daemon=True).start()
        try:
            for _ in range(count):
                fault = self._faults.get()
                if fault is not None:
                    raise fault
        except BaseException:
            self._stopped.set()
            self._session.executor.close()
            raise

    def _take(self) -> None:
        try:
            while not self._stopped.is_set():
                try:
                    name = self._queue.get_nowait()
                except queue.Empty:
                    break
                self._one(name)
        except BaseException as error:
            self._faults.put(error)
            return
        self._faults.put(None)

    def _one(self, name: str) -> None:
        self._pace.started(name)
        watcher = _Stoppable(self._progress.started(name), self._stopped)
        row = run_task(self._session, self._method, self._table.jobs[name], watcher)
        if self._stopped.is_set():
            return
        self._pace.finished(name)
        self._progress.finished(row, self._table.add(row))


class _Stoppable:
    """Passes progress on; raises Stopped at the next stage once the table is stopped."""

    def __init__(self, progress: Progress, stopped: threading.Event) -> None:
        self._progress = progress
        self._stopped = stopped

    def stage(self, name: str, design: int | None) -> None:
        """See Progress."""
        if self._stopped.is_set():
            raise Stopped("the table was stopped")
        self._progress.stage(name, design)

    def prepared(self, prepared: Prepared) -> None:
        """See Progress."""
        self._progress.prepared(prepared)

    def evaluated(self, design: int, evaluation: Evaluation) -> None:
        """See Progress."""
        if self._stopped.is_set():
            raise Stopped("the table was stopped")
        self._progress.evaluated(design, evaluation)


def _job(method: Method, name: str) -> Job:
    suite: Suite = "jaxbench" if method.settings.suite == "jaxbench" else "models"
    edition: Edition = msgspec.convert(method.settings.edition, Edition)
    return Job(load(suite, name, edition), entry(suite, name), expert(suite, name))
