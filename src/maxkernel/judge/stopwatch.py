"""From repetitions to a measured time: median, spread, and whether the host's clock agrees."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from maxkernel.types import Time
from maxkernel.types.measure import Measured, MeasuredRatio, Samples, WallCheck

CONFIDENCE = 0.95
"""Of the interval around a median."""
WALL_SHARE = 0.1
"""The two clocks may differ by this fraction before it is said."""
OPS_KEPT = 12
"""Slowest operations of a measured program that are kept."""


def measured(name: str, samples: Samples, dispatch: Sequence[float]) -> Measured:
    """A program's time with its spread. `dispatch`: wall times of calls that do next to nothing.

    Raises ValueError without repetitions, or where one is not positive.
    """
    middle = statistics.median(samples.device) if samples.device else 0.0
    if not samples.device or not all(0 < seconds < math.inf for seconds in samples.device):
        raise ValueError(f"{name}: {len(samples.device)} repetitions, not all of them positive")
    low, high = interval(samples.device)
    wall = statistics.median(samples.wall)
    slowest = sorted(samples.ops.items(), key=lambda item: -item[1])[:OPS_KEPT]
    return Measured(
        name=name,
        time=Time(middle, "measured", (high - low) / 2 / middle),
        low=low,
        high=high,
        quartiles=quartiles(samples.device),
        repetitions=len(samples.device),
        busy_seconds=statistics.median(samples.busy),
        wall_seconds=wall,
        wall=check_wall(middle, wall, statistics.median(dispatch)),
        ops=dict(slowest),
    )


def interval(values: Sequence[float]) -> tuple[float, float]:
    """A confidence interval of the median from order statistics, free of any assumed distribution.

    Between the k-th smallest and the k-th largest value, where k is the largest number for which
    fewer than k of n fair coins show heads in at most half of 1 - CONFIDENCE of all throws. With
    fewer than six values there is no such k: the whole range, which promises less.
    """
    ordered = sorted(values)
    count, below, k = len(ordered), 0.0, 0
    while k < count // 2:
        below += math.comb(count, k) / 2**count
        if below > (1 - CONFIDENCE) / 2:
            break
        k += 1
    first = max(k, 1) - 1
    return ordered[first], ordered[count - 1 - first]


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """Lower and upper quartile; the value itself where there is one."""
    if len(values) == 1:
        return values[0], values[0]
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return first, third


def check_wall(device: float, wall: float, dispatch: float) -> WallCheck:
    """Compares a program's device time with its wall time per call, all in seconds.

    A wall time below the device's cannot be; one above it means that the trace missed events,
    unless the host needs about that long to call anything at all.
    """
    words = f"wall {wall * 1e6:.1f} us per call, device {device * 1e6:.1f} us"
    if wall < device * (1 - WALL_SHARE):
        return WallCheck(False, f"{words}: a call cannot be shorter than its device time, so the "
                         "trace counts too much")  # fmt: skip
    if wall <= device * (1 + WALL_SHARE):
        return WallCheck(True, f"{words}: they agree within {WALL_SHARE:.0%}")
    if wall <= max(device, dispatch) * (1 + WALL_SHARE):
        return WallCheck(None, f"{words}: the host needs {dispatch * 1e6:.1f} us to call anything, "
                         "so its clock cannot confirm the device's")  # fmt: skip
    return WallCheck(False, f"{words}: they differ by more than {WALL_SHARE:.0%}, so the device "
                     "did something that the trace does not show")  # fmt: skip


def ratio(baseline: Samples, candidate: Samples) -> MeasuredRatio:
    """Baseline / candidate. Repetition by repetition: both ran on the same inputs in turn."""
    pairs = zip(baseline.device, candidate.device, strict=True)
    ratios = [theirs / mine for theirs, mine in pairs]
    low, high = interval(ratios)
    return MeasuredRatio(statistics.median(ratios), low, high)
