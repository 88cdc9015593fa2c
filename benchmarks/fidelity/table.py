"""Prints how the clock compares with the published times whose programs the cache holds:

    python -m benchmarks.fidelity.table CACHE [--rows] [--suite SUITE]

Beside it, on the same rows, the roofline (operations at peak, arguments and results at peak
bandwidth) and, for programs without Pallas kernels, the compiler's own estimate.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.fidelity.archives import unpack
from benchmarks.fidelity.flops import operations
from benchmarks.fidelity.rows import SUITES, Row

from maxkernel.schedule import (
    KernelOperands,
    Known,
    ScalarOperand,
    ScheduleError,
    expected_error,
    simulate,
)
from maxkernel.targets import TARGETS, peak_rate
from maxkernel.types import ProgramTime


@dataclass(frozen=True)
class Result:
    """One row with its simulated time and the estimates beside it, in seconds."""

    row: Row
    program: ProgramTime
    roofline: float
    compiler: float | None
    jax: str
    """The version that compiled it."""

    @property
    def ratio(self) -> float:
        return self.program.seconds / self.row.seconds

    @property
    def stall(self) -> float:
        return sum(op.stall_cycles for op in self.program.ops) / self.program.cycles


def evaluate(row: Row, archive: Path) -> Result:
    """Simulates one packed dump. Raises ScheduleError."""
    with tempfile.TemporaryDirectory() as folder:
        unpack(archive, Path(folder))
        facts = json.loads((Path(folder) / "facts.json").read_text())
        operands = tuple(
            KernelOperands(
                name,
                {int(index): ScalarOperand(tuple(shape), dtype, tuple(values))
                 for index, (shape, dtype, values) in call.items()},
            )
            for name, calls in facts["operands"].items()
            for call in calls
        )  # fmt: skip
        target = TARGETS[row.target]
        program = simulate(Path(folder), target, known=Known(operands))
    size = facts["argument_bytes"] + facts["output_bytes"]
    roofline = max(operations(row) / peak_rate(target, "bfloat16"), size / target.hbm_bandwidth)
    estimate = facts["xla_cycles"] / target.clock_hz if not facts["kernels"] else None
    return Result(row, program, roofline, estimate or None, facts.get("jax", "?"))


def load(cache: Path, suites: Iterable[str]) -> list[Result]:
    """Results of every row in the cache; rows that cannot be simulated are reported."""
    results: list[Result] = []
    for suite in suites:
        for row in SUITES[suite]():
            archive = cache / f"{row.key}.tar.gz"
            if not archive.exists():
                continue
            try:
                results.append(evaluate(row, archive))
            except ScheduleError as error:
                print(f"{row.target} {row.name}: {error.kind}: {error}", file=sys.stderr)
    return results


def summary(title: str, results: list[Result], estimate: Callable[[Result], float | None]) -> str:
    """One line: n, geometric mean of the ratios, median, p90 and maximum error, Spearman."""
    pairs = [(value, r.row.seconds) for r in results if (value := estimate(r)) is not None]
    if not pairs:
        return f"{title:42s} -"
    ratios = [mine / true for mine, true in pairs]
    errors = sorted(abs(ratio - 1) for ratio in ratios)
    mean = math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))
    p90 = errors[min(len(errors) - 1, math.ceil(0.9 * len(errors)) - 1)]
    rank = spearman(*zip(*pairs, strict=True)) if len(pairs) > 2 else float("nan")
    return (
        f"{title:42s} {len(pairs):4d} {mean:6.3f} {100 * statistics.median(errors):6.1f} % "
        f"{100 * p90:6.1f} % {100 * errors[-1]:6.1f} %  {rank:.3f}"
    )


def spearman(mine: tuple[float, ...], true: tuple[float, ...]) -> float:
    """Rank correlation, without correction for ties."""

    def ranks(values: tuple[float, ...]) -> list[int]:
        order = sorted(range(len(values)), key=values.__getitem__)
        return sorted(range(len(values)), key=order.__getitem__)

    a, b = ranks(mine), ranks(true)
    n = len(a)
    return 1 - 6 * sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) / (n * (n * n - 1))


_ESTIMATES = (
    ("clock", lambda r: r.program.seconds),
    ("roofline", lambda r: r.roofline),
    ("compiler's estimate", lambda r: r.compiler),
)


def report(results: list[Result]) -> None:
    """The tables of docs/fidelity.md."""
    print(f"{'':42s} {'n':>4s} {'geo':>6s} {'median':>8s} {'p90':>8s} {'max':>8s}  Spearman")
    groups = sorted({(r.row.suite, r.row.target) for r in results})
    for suite, target in groups:
        mine = [r for r in results if (r.row.suite, r.row.target) == (suite, target)]
        for split in ("fit", "test"):
            half = [r for r in mine if r.row.split == split]
            for label, estimate in _ESTIMATES:
                print(summary(f"{suite} {target} {split} {label}", half, estimate))
            if any(r.row.seen for r in half):
                unseen = [r for r in half if not r.row.seen]
                print(summary(f"{suite} {target} {split} clock, unseen", unseen, _ESTIMATES[0][1]))
    for suite in sorted({r.row.suite for r in results}):
        half = [r for r in results if r.row.suite == suite and r.row.split == "test"]
        for label, estimate in _ESTIMATES:
            print(summary(f"{suite} all test {label}", half, estimate))
    for suite in sorted({r.row.suite for r in results}):
        mine = [r for r in results if r.row.suite == suite]
        inside = [r for r in mine if abs(r.ratio - 1) <= expected_error(r.program)]
        compiled = Counter(r.jax for r in mine)
        by = ", ".join(f"jax {version}: {count}" for version, count in sorted(compiled.items()))
        print(f"{suite}: within its expected error {len(inside)} of {len(mine)}; rows by {by}")


def speedups(results: list[Result]) -> list[str]:
    """Simulated and measured speedups of hand-written kernels over XLA, where both are there."""
    found = {r.row.name: r for r in results if r.row.suite == "jaxbench"}
    lines: list[str] = []
    for name, kernel in found.items():
        baseline = found.get(name.replace("optimized", "baseline"))
        if name.endswith("optimized") and baseline:
            mine = baseline.program.seconds / kernel.program.seconds
            true = baseline.row.seconds / kernel.row.seconds
            off = 100 * (mine / true - 1)
            lines.append(f"speedup {name[:-10]}: {mine:.2f}, measured {true:.2f} ({off:+.1f} %)")
    return lines


def main() -> None:
    arguments = sys.argv[1:]
    suites = [arguments[arguments.index("--suite") + 1]] if "--suite" in arguments else SUITES
    cache = Path(arguments[0])
    results = load(cache, suites)
    if not results:
        sys.exit(f"{cache}: no row that can be simulated; compile_rows.py fills the folder")
    if "--rows" in arguments:
        for r in sorted(results, key=lambda r: (r.row.suite, r.row.target, r.row.name)):
            notes = "; ".join(r.program.assumptions)[:80]
            print(
                f"{r.row.target} {r.row.suite} {r.row.split:4s} {r.row.seconds * 1e3:9.3f} ms "
                f"{r.ratio:6.3f} ± {expected_error(r.program):.3f} stall {100 * r.stall:3.0f} %  "
                f"{r.row.name} jax {r.jax} "
                f"{r.row.fields.get('desc', '')[:110]} {notes}"
            )
    report(results)
    print("\n".join(speedups(results)))


if __name__ == "__main__":
    main()
