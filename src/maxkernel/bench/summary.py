"""What the rows of a table add up to."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import msgspec

from maxkernel.bench.result import Row
from maxkernel.types import WON


class Summary(msgspec.Struct, frozen=True):
    """What a table adds up to. Means are over max(1, speedup): XLA's program is the fallback."""

    tasks: int
    correct: int
    """A kernel was accepted, or XLA's program stands after accepted ones."""
    faster: int
    """fast@1: faster than XLA beyond the clock's expected error."""
    geometric_mean: float
    median: float
    beats_expert: int
    """Our kernel is faster than the expert's beyond the clock's expected error."""
    experts: int
    """Rows with an accepted expert kernel whose time can be compared."""
    equals_expert: int = 0
    """Within the clock's expected error of the expert's."""
    experts_refused: int = 0
    """Expert kernels that the judge did not accept."""
    passable: int = 0
    """Tasks whose check can be passed without doing the work."""
    sound_geometric_mean: float = 1.0
    """The geometric mean without those."""
    unfinished: int = 0
    """Errors and timeouts."""
    fits: int = 0
    """A kernel runs where XLA's program does not fit in memory; no speedup is told."""


def summarise(rows: Sequence[Row]) -> Summary:
    """The summary of some rows."""
    ratios = [r for row in rows if (r := expert_ratio(row)) is not None]
    margins = [margin(row) for row in rows if expert_ratio(row) is not None]
    pairs = list(zip(ratios, margins, strict=True))
    gains = [_gain(row) for row in rows]
    return Summary(
        tasks=len(rows),
        correct=sum(row.outcome in (*WON, "xla", "accepted") for row in rows),
        faster=sum(row.outcome == "faster" for row in rows),
        geometric_mean=_geometric(gains),
        median=statistics.median(gains) if gains else 1.0,
        beats_expert=sum(ratio > 1 + error for ratio, error in pairs),
        experts=sum(row.expert is not None for row in rows),
        equals_expert=sum(1 / (1 + error) <= ratio <= 1 + error for ratio, error in pairs),
        experts_refused=sum(bool(row.expert_problem) and row.expert is None for row in rows),
        passable=sum(row.passable for row in rows),
        sound_geometric_mean=_geometric([_gain(row) for row in rows if not row.passable]),
        unfinished=sum(row.outcome in ("error", "timeout") for row in rows),
        fits=sum(row.outcome == "fits" for row in rows),
    )


def expert_ratio(row: Row) -> float | None:
    """Expert's time / ours, above 1 is ours; None without two sound times of one provenance."""
    if row.best is None or row.expert is None or row.doubt or row.expert_doubt:
        return None
    if row.best.provenance != row.expert.provenance:
        return None
    return row.expert.seconds / row.best.seconds


def margin(row: Row) -> float:
    """The clock's expected error for the row: the larger one of ours and the expert's."""
    times = [time for time in (row.best, row.expert) if time is not None]
    return max((time.expected_error or 0.0 for time in times), default=0.0)


def _gain(row: Row) -> float:
    return max(1.0, row.speedup or 1.0) if row.outcome == "faster" else 1.0


def _geometric(gains: Sequence[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, gains))) if gains else 1.0
