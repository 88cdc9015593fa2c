"""What a driver costs per evaluation, with simulated workers and everything else real.

    python -m benchmarks.search.scale --workers 1000 --evaluations 6000

Prints one line of a table for docs/scale.md. The judge, the driver, the run file (with its
fsyncs) and the encoding of every message are the real ones; only the workers are simulated.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import resource
import tempfile
import time
from pathlib import Path

from benchmarks.search.simulated import SECONDS, SPEC, SimulatedWorkers, team
from maxkernel.config import Settings
from maxkernel.judge import Judge, Prepared, Roofline
from maxkernel.search import Context
from maxkernel.search.driver import Driver
from maxkernel.search.settings import SearchSettings
from maxkernel.store import RunFile, RunHeader
from maxkernel.targets import get_target
from maxkernel.tasks import task_from_text
from maxkernel.types import (
    Budget,
    Graph,
    LintResult,
    TaskInfo,
    Time,
    Tolerance,
)


def measure(
    workers: int, evaluations: int, scale: float, policy: str, width: int, folder: Path
) -> dict[str, float]:
    """One search; seconds of wall and CPU, and what they mean per evaluation."""
    executor = SimulatedWorkers(workers, scale)
    judge = Judge(executor, get_target("v6e"), Settings(workers=8), None)
    task = task_from_text("load", "maxkernel", "t.py", {"t.py": ""})
    budget = Budget(candidates=evaluations, patience=10**9, roofline=2.0)
    header = RunHeader("r", task, "v6e", "graph", budget, {}, time.time())
    with RunFile.create(folder / "r", header) as run:
        context = Context(run, judge, _prepared(task.digest), team(), budget, 8)
        cpu, wall = _cpu(), time.monotonic()
        Driver(context, SearchSettings(policy, width=width)).drive()
        cpu, wall = _cpu() - cpu, time.monotonic() - wall
        judged = len(run.evaluations())
    executor.close()
    return {
        "workers": workers,
        "evaluations": judged,
        "wall": wall,
        "per_second": judged / wall,
        "cpu_ms": 1e3 * (cpu - executor.own_cpu) / judged,
        "busy": executor.busy_seconds / (workers * wall),
        "file_kib": (folder / "r" / "run.sqlite").stat().st_size / judged / 1024,
    }


def _prepared(digest: str) -> Prepared:
    nothing = Graph((), (), (), ())
    info = TaskInfo(
        digest,
        ("x",),
        SPEC,
        SPEC,
        SPEC,
        SPEC,
        {},
        {},
        Tolerance(1e-2, 1e-2),
        nothing,
        1e9,
        1e6,
        b"",
    )
    return Prepared(
        task=task_from_text("load", "maxkernel", "t.py", {"t.py": ""}),
        info=info,
        target=get_target("v6e"),
        baseline=Time(1e-3, "simulated"),
        baseline_program=None,
        bound=Roofline(0.0, 1e-6, 0.0),
        compiler="simulated",
        lint=LintResult(()),
    )


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--evaluations", type=int, default=6000)
    parser.add_argument("--scale", type=float, default=1.0, help="of the simulated durations")
    parser.add_argument("--width", type=int, default=0, help="default: 1.2 x workers")
    parser.add_argument("--policy", default="best-first")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    width = options.width or int(1.2 * options.workers)
    profiler = cProfile.Profile() if options.profile else None
    with tempfile.TemporaryDirectory() as folder:
        if profiler is not None:
            profiler.enable()
        row = measure(
            options.workers,
            options.evaluations,
            options.scale,
            options.policy,
            width,
            Path(folder),
        )
        if profiler is not None:
            profiler.disable()
            pstats.Stats(profiler).sort_stats("tottime").print_stats(25)
    ideal = options.workers / (options.scale * sum(SECONDS.values()))
    print(
        f"| {row['workers']:.0f} | {width} | {row['evaluations']:.0f} | {row['wall']:.1f} s "
        f"| {row['per_second']:.1f} of {ideal:.1f} /s | {100 * row['busy']:.0f} % "
        f"| {row['cpu_ms']:.2f} ms | {row['file_kib']:.1f} KiB |"
    )


if __name__ == "__main__":
    main()
