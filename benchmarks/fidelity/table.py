"""Prints how the clock compares with the published times whose programs the cache holds:

    python -m benchmarks.fidelity.table CACHE [--rows] [--suite SUITE]

Beside it, on the same rows, the roofline (operations at peak, arguments and results at peak
bandwidth) and, for programs without Pallas kernels, the compiler's own estimate.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from benchmarks.fidelity.results import Result, load
from benchmarks.fidelity.rows import SUITES


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
    ("clock", lambda r: r.seconds),
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
        inside = [r for r in mine if abs(r.ratio - 1) <= r.error]
        compiled = Counter(r.jax for r in mine)
        by = ", ".join(f"jax {version}: {count}" for version, count in sorted(compiled.items()))
        print(f"{suite}: within its expected error {len(inside)} of {len(mine)}; rows by {by}")


def speedups(results: list[Result], absent: dict[str, str]) -> list[str]:
    """Simulated and measured ratios of XLA's time to the hand-written kernel's, and their error;
    where one of the two programs is not there, why."""
    found = {r.row.name: r for r in results if r.row.suite == "jaxbench"}
    rows = {row.name: row for row in SUITES["jaxbench"]()}
    lines: list[str] = []
    errors: list[float] = []
    for name in (name for name in rows if name.endswith("optimized")):
        pair = rows[name.replace("optimized", "baseline")], rows[name]
        label = f"speedup {name.removesuffix('.optimized')}:"
        why = [f"{row.name}: {absent[row.key]}" for row in pair if row.name not in found]
        if why:
            lines.append(f"{label} not known, {'; '.join(why)}")
            continue
        mine = found[pair[0].name].seconds / found[name].seconds
        true = pair[0].seconds / pair[1].seconds
        errors.append(abs(mine / true - 1))
        note = f"; XLA's program: {pair[0].other}" if pair[0].other else ""
        off = 100 * (mine / true - 1)
        lines.append(f"{label} {mine:.2f}, measured {true:.2f} ({off:+.1f} %){note}")
    if errors:
        median = 100 * statistics.median(errors)
        lines.append(f"speedups: median error {median:.1f} % of {len(errors)}")
    return lines


def not_there(suites: Iterable[str], absent: dict[str, str]) -> list[str]:
    """The rows without a time: how many of each suite, target and half, and JaxBench's reasons."""
    rows = [row for suite in suites for row in SUITES[suite]() if row.key in absent]
    groups = Counter(f"{row.suite} {row.target} {row.split}" for row in rows)
    lines = [f"no time: {count} rows of {group}" for group, count in sorted(groups.items())]
    mine = [row for row in rows if row.suite == "jaxbench"]
    return lines + [f"no time: {row.name}: {absent[row.key]}" for row in mine]


_DISPATCH = 0.11e-3
"""Seconds of host dispatch in each time of the sweep: what the nine have in common beside the
device's time, chosen on them (all are of the `fit` half)."""


def sweep(results: list[Result]) -> list[str]:
    """The sweep with its dispatch, and how far apart the two ends of it are."""
    mine = [r for r in results if r.row.suite == "sweep"]
    if not mine:
        return []
    lines = [summary("sweep clock and 0.11 ms of dispatch", mine, lambda r: r.seconds + _DISPATCH)]
    named = {r.row.name: r for r in mine}
    for size in sorted({int(r.row.fields["size"]) for r in mine}):
        pair = [named.get(f"{size}.{blocks}") for blocks in ("128/128/128", "512/1024/1024")]
        slow, fast = pair
        if slow and fast:
            lines.append(
                f"sweep {size}: blocks of 128 against 512/1024/1024: "
                f"{slow.seconds / fast.seconds:.1f}, with dispatch "
                f"{(slow.seconds + _DISPATCH) / (fast.seconds + _DISPATCH):.1f}, "
                f"measured {slow.row.seconds / fast.row.seconds:.1f}"
            )
    return lines


def main() -> None:
    arguments = sys.argv[1:]
    suites = [arguments[arguments.index("--suite") + 1]] if "--suite" in arguments else SUITES
    cache = Path(arguments[0])
    results, absent = load(cache, suites)
    if not results:
        sys.exit(f"{cache}: no row that can be simulated; compile_rows.py fills the folder")
    if "--rows" in arguments:
        for r in sorted(results, key=lambda r: (r.row.suite, r.row.target, r.row.name)):
            print(
                f"{r.row.target} {r.row.suite} {r.row.split:4s} {r.row.seconds * 1e3:9.3f} ms "
                f"{r.ratio:6.3f} ± {r.error:.3f} stall {100 * r.stall:3.0f} %  "
                f"{r.row.name} jax {r.jax} "
                f"{r.row.fields.get('desc', '')[:110]} {r.notes[:80]}"
            )
    report(results)
    lines = not_there(suites, absent) + sweep(results)
    if "jaxbench" in suites:
        lines += speedups(results, absent)
    print("\n".join(lines))


if __name__ == "__main__":
    main()
