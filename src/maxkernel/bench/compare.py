"""What changed between two tables, and whether it is beyond noise."""

from __future__ import annotations

from typing import Literal

import msgspec

from maxkernel.bench.result import BenchResult, Row
from maxkernel.errors import UsageError

SAME_CLOCK_NOISE = 0.005
"""Simulated times of one compiler are deterministic: half a percent covers rounding."""


class Change(msgspec.Struct, frozen=True):
    """One task in both tables."""

    task: str
    before: Row
    after: Row
    ratio: float | None
    """Best time before / best time after; above 1 is better now."""
    word: Literal["better", "worse", "same", "new win", "lost win", "not comparable"]


def compare(before: BenchResult, after: BenchResult) -> list[Change]:
    """Tasks that both tables hold, in the second one's order.

    Raises UsageError when the tables are of different suites or targets. Under different
    compilers a change must exceed the clock's expected error, else SAME_CLOCK_NOISE.
    """
    for field in ("suite", "target"):
        one, other = getattr(before.settings, field), getattr(after.settings, field)
        if one != other:
            raise UsageError(f"the two results differ in {field}: {one} and {other}")
    old = {row.task: row for row in before.rows}
    same_compiler = before.versions == after.versions
    return [_change(old[row.task], row, same_compiler) for row in after.rows if row.task in old]


def _change(before: Row, after: Row, same_compiler: bool) -> Change:
    if before.digest != after.digest:
        return Change(after.task, before, after, None, "not comparable")
    won, wins = before.outcome == "faster", after.outcome == "faster"
    ratio = _ratio(before, after)
    if won != wins:
        return Change(after.task, before, after, ratio, "new win" if wins else "lost win")
    if ratio is None:
        return Change(after.task, before, after, None, "same")
    noise = SAME_CLOCK_NOISE
    if not same_compiler and after.best is not None:
        noise = max(noise, after.best.expected_error or 0.0)
    word = "better" if ratio > 1 + noise else "worse" if ratio < 1 / (1 + noise) else "same"
    return Change(after.task, before, after, ratio, word)


def _ratio(before: Row, after: Row) -> float | None:
    if before.best is None or after.best is None:
        return None
    if before.best.provenance != after.best.provenance:
        return None
    return before.best.seconds / after.best.seconds
