"""What the judge's defences cost while searching, beside a pipeline that has none.

Both judge the same kernels of the built-in engineer, each time a source that nobody has seen, in
warm workers, without a cache, taking turns in one run. The undefended pipeline is what a harness
has at least: trace and export, compile, simulate, run the check-size program once and compare it
with answers that are kept. It has no sandbox, gate, rules, second reading of the artifact, oracle,
secret seeds, further distributions, or runs with falsified kernels. What only winners go through
(hazards, every distribution, the full size) is printed apart.

    python -m benchmarks.judge_overhead

Times are wall seconds of this machine; the limit of the ratio is 2.
"""

from __future__ import annotations

import argparse
import os
import secrets
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from maxkernel.api import Session, open_session
from maxkernel.engineers.team import Team
from maxkernel.judge import Prepared
from maxkernel.judge.requests import capture_request
from maxkernel.tasks import load_task
from maxkernel.types import Candidate, Task
from maxkernel.types.messages import CaptureReply, CompileReply, CompileRequest

EXAMPLES = Path(__file__).parent.parent / "examples"
NAMES = ("rmsnorm", "softmax_xent", "gemm_gelu")
LIMIT = 2.0
SEED = 0
"""Of the undefended pipeline's only inputs."""


class Undefended:
    """Captures, compiles, simulates and checks once, believing everything."""

    def __init__(self, session: Session, prepared: Prepared) -> None:
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        from maxkernel.worker.reference import prepare
        from maxkernel.worker.samples import draw

        self.session = session
        self.prepared = prepared
        sample = draw(prepare(prepared.task), SEED)
        self.inputs, self.expected = sample.originals, sample.reference

    def judge(self, candidate: Candidate) -> None:
        """Raises AssertionError for a kernel that is wrong or cannot be timed."""
        request = capture_request(self.prepared, candidate, self.session.settings)
        captured = self.session.executor.submit(request).result()
        assert isinstance(captured, CaptureReply), captured
        target = self.prepared.target.name
        compiling = self.session.executor.submit(CompileRequest(captured.artifact.tpu, target))
        with ThreadPoolExecutor(1) as beside:
            checking = beside.submit(self._right, captured.artifact.check)
            compiled = compiling.result()
            assert isinstance(compiled, CompileReply) and compiled.program is not None
            assert checking.result()

    def _right(self, program: bytes) -> bool:
        from maxkernel.worker import mosaic

        tolerance = self.prepared.info.tolerance
        outputs = mosaic.run(mosaic.load(program), self.inputs)
        pairs = zip(outputs, self.expected, strict=True)
        return all(_close(mine, theirs, tolerance.atol, tolerance.rtol) for mine, theirs in pairs)


def _close(mine: Any, theirs: Any, atol: float, rtol: float) -> bool:
    wide = (np.asarray(a).astype(np.float32) for a in (mine, theirs))
    return bool(np.allclose(*wide, atol=atol, rtol=rtol))


def kernel_of(prepared: Prepared) -> Candidate:
    """The built-in engineer's first kernel for the task."""
    team = Team.builtin()
    plan = team.planner.plan(prepared.info, prepared.target, ())[0]
    return Candidate(team.implementer.implement(prepared.info, plan, prepared.target))


def measure(task: Task, target: str, repeats: int) -> tuple[float, float, float, float]:
    """Median seconds defended and undefended, their median ratio, seconds of a confirmation."""
    with (
        open_session(target, use_cache=False) as session,
        open_session(target, unsafe_no_sandbox=True, use_cache=False) as bare_session,
    ):
        prepared = session.judge.prepare(task)
        bare = Undefended(bare_session, prepared)
        kernel = kernel_of(prepared)
        pairs: list[tuple[float, float]] = []
        for _ in range(repeats + 1):
            started = time.perf_counter()
            evaluation = session.judge.evaluate(prepared, _fresh(kernel))
            middle = time.perf_counter()
            assert evaluation.accepted, evaluation.failure
            bare.judge(_fresh(kernel))
            pairs.append((middle - started, time.perf_counter() - middle))
        started = time.perf_counter()
        confirmation = session.judge.confirm(prepared, kernel)
        assert confirmation.failure is None, confirmation.failure
        confirmed = time.perf_counter() - started
    judged, plain = zip(*pairs[1:], strict=True)
    ratios = [a / b for a, b in pairs[1:]]
    return (
        statistics.median(judged),
        statistics.median(plain),
        statistics.median(ratios),
        confirmed,
    )


def _fresh(kernel: Candidate) -> Candidate:
    return Candidate(f"{kernel.source}\n# {secrets.token_hex(8)}\n", kernel.tunables)


def main() -> None:
    """Prints a line per example."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="v6e")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("names", nargs="*", default=NAMES)
    options = parser.parse_args()
    print(f"judging one more candidate, median of {options.repeats}; limit {LIMIT:g}x")
    for name in options.names:
        task = load_task(EXAMPLES / f"{name}.py")
        judged, bare, ratio, confirmed = measure(task, options.target, options.repeats)
        word = "within" if ratio <= LIMIT else "OVER"
        print(
            f"  {name}: {judged:.2f} s defended, {bare:.2f} s undefended, {ratio:.2f}x, {word} "
            f"the limit; a winner's confirmation {confirmed:.1f} s"
        )


if __name__ == "__main__":
    main()
