"""What changed between two tables, and whether it is beyond noise."""

from __future__ import annotations

import math
import statistics
from typing import Literal, get_args

import msgspec

from maxkernel.bench.result import BenchResult, Row
from maxkernel.errors import UsageError
from maxkernel.types import WON

SAME_CLOCK_NOISE = 0.005
"""Simulated times of one compiler are deterministic: half a percent covers rounding."""

Word = Literal["better", "worse", "same", "new win", "lost win", "not comparable"]


class Change(msgspec.Struct, frozen=True):
    """One task in both tables."""

    task: str
    before: Row
    after: Row
    ratio: float | None
    """Best time before / best time after; above 1 is better now."""
    word: Word
    baseline_ratio: float | None = None
    """Baseline before / after: other than 1 when XLA or the clock changed."""


class Comparison(msgspec.Struct, frozen=True):
    """Two tables side by side."""

    changes: tuple[Change, ...]
    counts: dict[str, int]
    """Changes by word."""
    geometric_mean: float | None
    """Of the ratios of tasks with a kernel in both tables."""
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    differences: tuple[str, ...]
    """Settings and versions in which the tables differ, in words."""


def compare(before: BenchResult, after: BenchResult) -> list[Change]:
    """Tasks that both tables hold, in the second one's order.

    Raises UsageError when the tables are of different suites or targets. Under different
    compilers or clocks a change must exceed the clock's expected error, else SAME_CLOCK_NOISE.
    """
    for field in ("suite", "target"):
        one, other = getattr(before.settings, field), getattr(after.settings, field)
        if one != other:
            raise UsageError(f"the two results differ in {field}: {one} and {other}")
    old = {row.task: row for row in before.rows}
    same_clock = (before.versions, before.stages) == (after.versions, after.stages)
    return [_change(old[row.task], row, same_clock) for row in after.rows if row.task in old]


def compare_tables(before: BenchResult, after: BenchResult) -> Comparison:
    """`compare`, what it adds up to, and in what the two tables differ themselves."""
    changes = compare(before, after)
    ratios = [c.ratio for c in changes if c.ratio is not None]
    old, new = ({row.task for row in table.rows} for table in (before, after))
    return Comparison(
        changes=tuple(changes),
        counts={word: n for word in get_args(Word) if (n := sum(c.word == word for c in changes))},
        geometric_mean=math.exp(statistics.fmean(map(math.log, ratios))) if ratios else None,
        only_before=tuple(row.task for row in before.rows if row.task not in new),
        only_after=tuple(row.task for row in after.rows if row.task not in old),
        differences=tuple(_differences(before, after)),
    )


def _differences(before: BenchResult, after: BenchResult) -> list[str]:
    found: list[str] = []
    pairs = [
        (name, getattr(before.settings, name), getattr(after.settings, name))
        for name in before.settings.__struct_fields__
    ]
    pairs += [
        (name, before.versions.get(name), after.versions.get(name))
        for name in sorted(before.versions | after.versions)
    ]
    pairs += [
        (f"clock and judge, {name}", before.stages.get(name), after.stages.get(name))
        for name in sorted(before.stages | after.stages)
    ]
    codes = [sorted({row.code for row in table.rows if row.code}) for table in (before, after)]
    pairs.append(("maxkernel sources", ", ".join(codes[0]), ", ".join(codes[1])))
    for name, one, other in pairs:
        if one != other:
            found.append(f"{name.replace('_', ' ')}: {one or 'none'} -> {other or 'none'}")
    return found


def _change(before: Row, after: Row, same_clock: bool) -> Change:
    if before.digest != after.digest:
        return Change(after.task, before, after, None, "not comparable")
    won, wins = before.outcome in WON, after.outcome in WON
    ratio, baseline = _ratio(before, after), _baseline_ratio(before, after)
    if won != wins:
        word: Word = "new win" if wins else "lost win"
    elif ratio is None:
        word = "same"
    else:
        noise = SAME_CLOCK_NOISE
        if not same_clock and after.best is not None:
            noise = max(noise, after.best.expected_error or 0.0)
        word = "better" if ratio > 1 + noise else "worse" if ratio < 1 / (1 + noise) else "same"
    return Change(after.task, before, after, ratio, word, baseline)


def _ratio(before: Row, after: Row) -> float | None:
    if before.best is None or after.best is None:
        return None
    if before.best.provenance != after.best.provenance:
        return None
    return before.best.seconds / after.best.seconds


def _baseline_ratio(before: Row, after: Row) -> float | None:
    one, other = before.baseline, after.baseline
    if one is None or other is None or one.provenance != other.provenance:
        return None
    return one.seconds / other.seconds
