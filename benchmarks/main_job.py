"""The figures of the main job: start-up, speedups of the examples, overhead of judging.

Run with `make bench`. Absolute times are of this machine; ratios are taken within one run.
"""

from __future__ import annotations

import argparse
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from maxkernel.api import Session, open_session, start_run
from maxkernel.api.runs import BUNDLE
from maxkernel.config import load_settings
from maxkernel.judge import Prepared
from maxkernel.report import RunReport, quote_time
from maxkernel.store import RunFile
from maxkernel.tasks import load_task
from maxkernel.types import Budget, Candidate, Failure
from maxkernel.types.messages import CompileReply, CompileRequest

EXAMPLES = Path(__file__).parent.parent / "examples"
NAMES = ("rmsnorm", "softmax_xent", "gemm_gelu")


def help_seconds(repeats: int = 7) -> float:
    """Median wall time of `maxkernel --help` in a new process."""
    command = [str(Path(sys.executable).with_name("maxkernel")), "--help"]
    times: list[float] = []
    for _ in range(repeats):
        started = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def overhead(
    session: Session, prepared: Prepared, kernel: Candidate, repeats: int
) -> tuple[float, float, float]:
    """Median seconds from source to verdict and of the bare compile, and their median ratio.

    Workers are warm and nothing is cached: the session has no cache. The bare compile is that of
    the same program in the same worker, without simulation.
    """
    judged: list[float] = []
    bare: list[float] = []
    for repeat in range(repeats + 1):
        fresh = Candidate(f"{kernel.source}\n# {secrets.token_hex(8)}\n", kernel.tunables)
        started = time.perf_counter()
        evaluation = session.judge.evaluate(prepared, fresh)
        elapsed = time.perf_counter() - started
        assert evaluation.accepted, evaluation.failure
        artifact, _ = session.judge.capture(prepared, fresh)
        assert not isinstance(artifact, Failure)
        reply = session.executor.submit(CompileRequest(artifact.tpu, prepared.target.name)).result()
        assert isinstance(reply, CompileReply)
        if repeat:
            judged.append(elapsed)
            bare.append(reply.compile_seconds)
    ratios = [a / b for a, b in zip(judged, bare, strict=True)]
    return statistics.median(judged), statistics.median(bare), statistics.median(ratios)


def run_example(name: str, target: str, repeats: int) -> tuple[RunReport, str]:
    """Optimises one example from cold and measures the overhead on its best kernel."""
    task = load_task(EXAMPLES / f"{name}.py")
    with tempfile.TemporaryDirectory() as folder:
        settings = msgspec.structs.replace(
            load_settings(), cache_dir=f"{folder}/cache", runs_dir=f"{folder}/runs"
        )
        with open_session(target, settings=settings) as session:
            started = time.perf_counter()
            report, run = start_run(session, task, Budget())
            wall = time.perf_counter() - started
            print(f"  bundle: {', '.join(sorted(p.name for p in (run / BUNDLE).iterdir()))}")
        with open_session(target, settings=settings, use_cache=False) as session:
            prepared = session.judge.prepare(task)
            judged, bare, ratio = overhead(session, prepared, _best(run), repeats)
    return report, (
        f"run {wall:.1f} s; one more candidate {judged:.2f} s, bare compile {bare:.2f} s, "
        f"ratio {ratio:.2f}"
    )


def _best(run: Path) -> Candidate:
    with RunFile.read(run) as file:
        accepted = [e for _, e in file.evaluations() if e.accepted and e.time is not None]
    best = min(accepted, key=lambda e: e.time.seconds if e.time else 0.0)
    return best.candidate


def main() -> None:
    """Prints every figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="v6e")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("names", nargs="*", default=NAMES)
    options = parser.parse_args()
    print(f"maxkernel --help: {help_seconds():.3f} s (median of 7)")
    for name in options.names:
        print(name)
        report, costs = run_example(name, options.target, options.repeats)
        print(f"  XLA {quote_time(report.baseline)}; best kernel {quote_time(report.best)}")
        speedup = f"{report.speedup:.3f}x" if report.speedup else "none"
        print(f"  speedup {speedup}, outcome {report.outcome}, ended: {report.reason}")
        print(f"  {costs}")


if __name__ == "__main__":
    main()
