"""Evaluations per minute of graph searches, cold and warm, beside bare compilations one at a time.

    python -m benchmarks.search.pace [--task TASK ...] [--candidates 12]

`cold`: an empty cache. `warm`: the same search once more, captures and compilations remembered,
checks not. Both end with the last verdict; what confirming the winner took has a row of its own,
with the number of kernels that were confirmed or not. `bare`: the programs of that search through
the compile worker, one after another. All workers are started before.
`pace`: evaluations over what two cores could compile bare in that time. `CPU`: of the CPU seconds
of an evaluation, those that its bare compilation takes.
CPU seconds are those of this process and all its workers, so they do not depend on other load.
`kept busy` is the share of two cores that there was work for: the mean over samples of
min(2, threads that run or wait for a core) / 2. On a machine that others use, the wall times are
too long, and threads that wait for a core stay in the count for longer than the work would take.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.cpu import tree_seconds
from benchmarks.search.busy import Busy
from maxkernel.api import load_task, open_session
from maxkernel.api.session import Session
from maxkernel.engineers.team import Team
from maxkernel.judge import Cache, Judge, Prepared, requests
from maxkernel.modes import run_graph
from maxkernel.search import Context
from maxkernel.search.settings import SearchSettings
from maxkernel.store import RunFile, RunHeader
from maxkernel.types import Artifact, Budget, Candidate, Confirmation, Failure, Tunable
from maxkernel.types.messages import Outline

FOLDER = Path(__file__).parent / "tasks"
TASKS = (
    str(FOLDER / "rows_mish_softmax.py"),
    str(FOLDER / "matmul_mish.py"),
    str(FOLDER / "attention_small.py"),
    "jaxbench:50k",
)
"""Row by row, a product, attention, and a product at full size, whose compile takes seconds."""
CORES = 2


@dataclass(frozen=True)
class Measured:
    """One row."""

    count: int
    wall: float
    cpu: float
    busy: float

    def line(self, task: str, name: str, bare: Measured | None = None, asked: str = "") -> str:
        """The row as text; beside `bare` compilations, if given."""
        ratios = f"{self.pace(bare):.2f} | {self.share(bare):.2f}" if bare else "- | -"
        return (
            f"| {task} | {name} | {self.count} | {self.wall:.0f} s | "
            f"{60 * self.count / max(self.wall, 1e-3):.1f} | "
            f"{self.cpu / max(1, self.count):.2f} s | "
            f"{100 * self.busy:.0f} % | {ratios} | {asked} |"
        )

    def pace(self, bare: Measured) -> float:
        """Evaluations per second, over what all cores could compile bare."""
        return (self.count / self.wall) / (CORES * bare.count / bare.wall)

    def share(self, bare: Measured) -> float:
        """Of the CPU seconds of an evaluation, those that its bare compilation takes."""
        return (bare.cpu / bare.count) / (self.cpu / self.count)


class Stopwatch:
    """Measures stretches of work, one after the other."""

    def __init__(self) -> None:
        self._busy = Busy(CORES)
        self._busy.start()
        self._started, self._used = time.monotonic(), tree_seconds()

    def lap(self, count: int) -> Measured:
        """What was done since the start, or the last lap: so many things."""
        now, used = time.monotonic(), tree_seconds()
        found = Measured(count, now - self._started, used - self._used, self._busy.lap())
        self._started, self._used = now, used
        return found

    def stop(self) -> None:
        """Ends its own sampling."""
        self._busy.stop()


class Counted(Judge):
    """Counts what it is asked to capture, to outline and to confirm."""

    captures = 0
    outlines = 0
    confirmations = 0
    before_confirming: Callable[[], None] = staticmethod(lambda: None)
    """Called before the first confirmation."""

    def capture(self, prepared: Prepared, candidate: Candidate) -> tuple[Artifact | Failure, bool]:
        """As the judge."""
        self.captures += 1
        return super().capture(prepared, candidate)

    def outline(
        self, prepared: Prepared, source: str, assignments: Sequence[Mapping[str, Tunable]]
    ) -> list[Outline]:
        """As the judge."""
        self.outlines += len(assignments)
        return super().outline(prepared, source, assignments)

    def confirm(
        self,
        prepared: Prepared,
        candidate: Candidate,
        captured: Artifact | Failure | None = None,
    ) -> Confirmation:
        """As the judge."""
        if not self.confirmations:
            self.before_confirming()
        self.confirmations += 1
        return super().confirm(prepared, candidate, captured)


def search(
    judge: Counted, prepared: Prepared, candidates: int, folder: Path
) -> tuple[Measured, Measured, list[Candidate]]:
    """One search: its evaluations, what confirming took, and what it judged."""
    budget = Budget(candidates=candidates, patience=1000, roofline=1.0)
    name, target = prepared.task, prepared.target.name
    header = RunHeader("r", name, target, "graph", budget, judge.versions, time.time())
    laps: list[Measured] = []
    with RunFile.create(folder, header) as run:
        watch = Stopwatch()

        def judged() -> None:
            laps.append(watch.lap(len(run.evaluations())))

        judge.confirmations, judge.before_confirming = 0, judged
        run_graph(Context(run, judge, prepared, Team.builtin(), budget, CORES), SearchSettings())
        if not laps:
            judged()
        confirming = watch.lap(judge.confirmations)
        watch.stop()
        return laps[0], confirming, [evaluation.candidate for _, evaluation in run.evaluations()]


def start_workers(session: Session, prepared: Prepared) -> None:
    """Has every compile worker compile XLA's program once, side by side."""
    program = prepared.info.reference_tpu
    request = requests.compile_request(prepared.task, program, session.target)
    for future in [session.executor.submit(request) for _ in range(CORES)]:
        future.result()


def bare(
    session: Session, judge: Judge, prepared: Prepared, candidates: list[Candidate]
) -> Measured:
    """Compiles what was judged, one program after another."""
    programs = [
        captured.tpu
        for candidate in candidates
        if not isinstance(captured := judge.capture(prepared, candidate)[0], Failure)
    ]

    watch = Stopwatch()
    for program in programs:
        request = requests.compile_request(
            prepared.task, program, session.target, None, judge.calibration
        )
        session.executor.submit(request).result()
    found = watch.lap(len(programs))
    watch.stop()
    return found


def print_rows(task: str, candidates: int) -> None:
    """One task's rows, all at its end."""
    with (
        tempfile.TemporaryDirectory() as folder,
        open_session("v6e", use_cache=False) as session,
    ):
        root = Path(folder)
        cache = Cache(root / "cache")
        judge = Counted(session.executor, session.target, session.settings, cache)
        loaded = load_task(task)
        prepared = judge.prepare(loaded)
        start_workers(session, prepared)

        cold, confirmed, _ = search(judge, prepared, candidates, root / "cold")
        asked = f"{judge.captures} captures, {judge.outlines} outlines"
        warm, again, found = search(judge, prepared, candidates, root / "warm")
        alone = bare(session, judge, prepared, found)
        cache.close()
    print(cold.line(loaded.name, "cold", alone, asked))
    print(confirmed.line(loaded.name, "cold, confirmation"))
    print(warm.line(loaded.name, "warm", alone))
    print(again.line(loaded.name, "warm, confirmation"))
    print(alone.line(loaded.name, "bare compilations"), flush=True)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", action="append", help="A file or suite:name; may be repeated.")
    parser.add_argument("--candidates", type=int, default=12)
    options = parser.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f} at the start\n")
    print("| task | | number | wall | per minute | CPU each | kept busy | pace | CPU | asked for |")
    print("| --- " * 10 + "|", flush=True)
    for task in options.task or TASKS:
        print_rows(task, options.candidates)
    print(f"\nload average {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
