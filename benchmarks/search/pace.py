"""Evaluations per minute of a graph search, cold and warm, beside bare compilations one at a time.

    python -m benchmarks.search.pace [--task FILE] [--candidates 12]

`cold`: an empty cache. `warm`: the same search once more, captures and compilations remembered,
checks not. `bare`: the programs of that search through the compile worker, one after another.
CPU seconds are those of this process and all its workers, so they do not depend on other load.
`kept busy` is the share of two cores that the search had work for: the mean over samples of
min(2, threads that run or wait for a core) / 2. On a machine that others use, the wall times are
too long, and threads that wait for a core stay in the count for longer than the work would take.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from maxkernel.api import load_task, open_session
from maxkernel.api.session import Session
from maxkernel.engineers.team import Team
from maxkernel.executor.tree import family
from maxkernel.judge import Cache, Judge, Prepared, requests
from maxkernel.modes import run_graph
from maxkernel.search import Context
from maxkernel.search.settings import SearchSettings
from maxkernel.store import RunFile, RunHeader
from maxkernel.types import Artifact, Budget, Candidate, Failure

TASK = Path(__file__).parent / "tasks" / "rows_mish_softmax.py"
TICKS = os.sysconf("SC_CLK_TCK")
PAUSE = 0.2
"""Seconds between two looks at what runs."""


def cpu_seconds() -> float:
    """Of this process, its descendants, and those of them that have ended."""
    total = 0
    for pid in family(os.getpid()):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
        except OSError:
            continue
        total += sum(int(field) for field in fields[11:15])
    return total / TICKS


class Sampler(threading.Thread):
    """Counts threads that run or could run, but for its own."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.samples: list[int] = []
        self.over = threading.Event()

    def run(self) -> None:
        """Until it is told to stop."""
        me = threading.get_native_id()
        while not self.over.wait(PAUSE):
            self.samples.append(sum(_runnable(pid, me) for pid in family(os.getpid())))

    def stop(self) -> float:
        """The share of two cores that there was work for."""
        self.over.set()
        self.join()
        return sum(min(2, n) for n in self.samples) / (2 * max(1, len(self.samples)))


def _runnable(pid: int, me: int) -> int:
    count = 0
    for path in Path(f"/proc/{pid}/task").glob("*/stat"):
        try:
            state = path.read_text().rpartition(") ")[2][0]
        except OSError:
            continue
        count += state == "R" and path.parent.name != str(me)
    return count


@dataclass
class Measured:
    """One row."""

    count: int
    wall: float
    cpu: float
    busy: float

    def line(self, name: str) -> str:
        """The row as text."""
        return (
            f"| {name} | {self.count} | {self.wall:.0f} s | {60 * self.count / self.wall:.1f} | "
            f"{self.cpu / self.count:.2f} s | {100 * self.busy:.0f} % |"
        )


def measured(work: Callable[[], int]) -> Measured:
    """Runs `work`, which answers how many things it did."""
    sampler, started, used = Sampler(), time.monotonic(), cpu_seconds()
    sampler.start()
    count = work()
    wall, cpu = time.monotonic() - started, cpu_seconds() - used
    return Measured(count, wall, cpu, sampler.stop())


class Counted(Judge):
    """Counts what it is asked to capture."""

    captures = 0

    def capture(self, prepared: Prepared, candidate: Candidate) -> tuple[Artifact | Failure, bool]:
        """As the judge."""
        self.captures += 1
        return super().capture(prepared, candidate)


def search(judge: Judge, prepared: Prepared, candidates: int, folder: Path) -> list[Candidate]:
    """One search; what it judged."""
    budget = Budget(candidates=candidates, patience=1000, roofline=1.0)
    name, target = prepared.task, prepared.target.name
    header = RunHeader("r", name, target, "graph", budget, judge.versions, time.time())
    with RunFile.create(folder, header) as run:
        run_graph(Context(run, judge, prepared, Team.builtin(), budget, 2), SearchSettings())
        return [evaluation.candidate for _, evaluation in run.evaluations()]


def bare(session: Session, judge: Judge, prepared: Prepared, found: list[Candidate]) -> Measured:
    """Compiles what was judged, one program after another."""
    programs = [
        captured.tpu
        for candidate in found
        if not isinstance(captured := judge.capture(prepared, candidate)[0], Failure)
    ]

    def work() -> int:
        for program in programs:
            request = requests.compile_request(
                prepared.task, program, session.target, None, judge.calibration
            )
            session.executor.submit(request).result()
        return len(programs)

    return measured(work)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", type=Path, default=TASK)
    parser.add_argument("--candidates", type=int, default=12)
    options = parser.parse_args()
    found: list[Candidate] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        open_session("v6e", use_cache=False) as session,
    ):
        root = Path(folder)
        cache = Cache(root / "cache")
        judge = Counted(session.executor, session.target, session.settings, cache)
        prepared = judge.prepare(load_task(options.task))

        def run(name: str) -> int:
            found[:] = search(judge, prepared, options.candidates, root / name)
            return len(found)

        print(f"load average {os.getloadavg()[0]:.1f} at the start\n")
        print("| | number | wall | per minute | CPU each | kept busy |")
        print("| --- " * 6 + "|")
        cold = measured(lambda: run("cold"))
        captures = judge.captures
        print(cold.line("cold"), flush=True)
        print(measured(lambda: run("warm")).line("warm"), flush=True)
        alone = bare(session, judge, prepared, found)
        print(alone.line("bare compilations"), flush=True)
        cache.close()
    pace = (cold.count / cold.wall) / (2 * alone.count / alone.wall)
    print(f"\ncold evaluations per minute / what two cores could compile bare: {pace:.2f}")
    print(f"captures that the cold search asked for: {captures}")
    print(f"load average {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
