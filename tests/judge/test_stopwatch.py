"""Median, spread and the cross-check of a measured time, on numbers that are known."""

import random
import statistics

import pytest

from maxkernel.judge.stopwatch import check_wall, interval, measured, quartiles, ratio
from maxkernel.types.measure import Samples


@pytest.mark.parametrize(
    ("count", "first", "last"),
    # The order statistics of the sign test's table at 95 %, counted from one.
    [(1, 1, 1), (5, 1, 5), (6, 1, 6), (8, 1, 8), (9, 2, 8), (12, 3, 10), (20, 6, 15), (25, 8, 18)],
)
def test_the_interval_of_the_median_is_that_of_the_sign_test(
    count: int, first: int, last: int
) -> None:
    values = [float(n) for n in range(1, count + 1)]
    random.Random(0).shuffle(values)
    assert interval(values) == (first, last)


def test_the_interval_holds_the_median_as_often_as_it_says() -> None:
    rng = random.Random(7)
    trials = [interval([rng.lognormvariate(0, 0.5) for _ in range(15)]) for _ in range(2000)]
    inside = sum(low <= 1.0 <= high for low, high in trials) / len(trials)
    assert 0.94 <= inside <= 0.99


def test_one_slow_repetition_moves_neither_median_nor_interval() -> None:
    steady = [1.00e-3, 1.01e-3, 0.99e-3, 1.02e-3, 0.98e-3] * 3
    slow = [*steady[:-1], 5e-2]
    found = measured("x", Samples(tuple(slow), tuple(slow), (1.02e-3,)), [1e-5])
    assert found.time.seconds == pytest.approx(1.0e-3, rel=0.011)
    assert found.time.provenance == "measured"
    assert found.time.expected_error is not None and 0 < found.time.expected_error < 0.03
    assert found.low <= found.time.seconds <= found.high
    assert found.repetitions == 15 and found.wall.agrees


def test_quartiles() -> None:
    assert quartiles([4.0, 1.0, 3.0, 2.0, 5.0]) == (2.0, 4.0)
    assert quartiles([3.0]) == (3.0, 3.0)


@pytest.mark.parametrize(
    ("device", "wall", "dispatch", "agrees", "word"),
    [
        (1e-3, 1.05e-3, 1e-4, True, "agree within 10%"),
        (1e-3, 0.95e-3, 1e-4, True, "agree within 10%"),
        (1e-3, 0.80e-3, 1e-4, False, "counts too much"),
        (1e-3, 1.50e-3, 1e-4, False, "does not show"),
        (1e-5, 1.05e-4, 1e-4, None, "cannot confirm"),
        (1e-5, 5e-4, 1e-4, False, "does not show"),
    ],
)
def test_the_hosts_clock_confirms_or_contradicts(
    device: float, wall: float, dispatch: float, agrees: bool | None, word: str
) -> None:
    found = check_wall(device, wall, dispatch)
    assert found.agrees is agrees
    assert word in found.text


def test_a_ratio_is_paired_by_repetition() -> None:
    drift = [1 + 0.1 * n for n in range(12)]
    slow = Samples(tuple(2e-3 * d for d in drift), (), ())
    fast = Samples(tuple(1e-3 * d for d in drift), (), ())
    found = ratio(slow, fast)
    assert found.ratio == pytest.approx(2.0)
    assert found.high - found.low < 1e-9
    assert statistics.median(slow.device) > 1.5 * slow.device[0]


@pytest.mark.parametrize("device", [(), (1e-3, 0.0), (float("nan"),), (float("inf"),)])
def test_no_time_without_positive_repetitions(device: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="repetitions"):
        measured("x", Samples(device, device, (1.0,)), [1.0])
