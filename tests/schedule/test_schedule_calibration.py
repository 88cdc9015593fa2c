"""Constants of the clock from measured times: synthetic ones, made from known constants."""

import random

import msgspec
import pytest

from maxkernel.schedule.calibration import CalibrationError, Row, Work, fit, probes, work_of
from maxkernel.schedule.constants import clock_of
from maxkernel.targets import TARGETS
from maxkernel.types import Clock

BASE = clock_of(TARGETS["v6e"])
TRUTH = Clock(1.61e9, 1.19e12, 0.93e-6, 210.0, True)


def work() -> list[Work]:
    """The shapes of the microkernels: large copies, small copies in turn, short runs, products."""
    kib = 1024.0
    shapes = ((1024 * kib, 4), (2048 * kib, 2), (256 * kib, 8), (512 * kib, 16))
    large = [Work(6e4, 500, size * 500, runs * 500) for size, runs in shapes]
    single = [Work(8e4, 2048, size * 2048, 2048) for size in (4 * kib, 16 * kib, 8 * kib)]
    short = [Work(1e5, 500, 500 * 4096 * run, 500 * 4096.0) for run in (512.0, 1024.0, 2048.0)]
    product = [Work(7e5, 2, 3e6, 300), Work(9e5, 2, 1e6, 300), Work(2e6, 2, 1e6, 300)]
    return [*large, *single, *short, *product]


def rows(noise: float, seed: int = 0) -> list[Row]:
    draw = random.Random(seed)
    return [
        Row(f"row {place}", "", item, item.seconds(TRUTH) * (1 + draw.gauss(0, noise)))
        for place, item in enumerate(work())
    ]


def copies_only(row: Row) -> Row:
    return msgspec.structs.replace(row, work=msgspec.structs.replace(row.work, cycles=1e3))


def errors(found: Clock) -> dict[str, float]:
    return {
        name: getattr(found, name) / getattr(TRUTH, name) - 1
        for name in ("hz", "bandwidth", "latency", "chunk_bytes")
    }


def test_exact_times_give_the_exact_constants() -> None:
    found = fit(rows(0.0), BASE)
    assert max(map(abs, errors(found.clock).values())) < 1e-6
    assert found.expected_error < 1e-3
    assert not any(residual.outlier for residual in found.residuals)


@pytest.mark.parametrize("seed", range(8))
def test_noise_of_one_percent_is_survived(seed: int) -> None:
    found = fit(rows(0.01, seed), BASE)
    wrong = errors(found.clock)
    assert abs(wrong["hz"]) < 0.03
    assert abs(wrong["bandwidth"]) < 0.03
    assert abs(wrong["latency"]) < 0.05
    assert abs(wrong["chunk_bytes"]) < 0.15
    assert 0.002 < found.expected_error < 0.03


@pytest.mark.parametrize("factor", [0.3, 3.0])
@pytest.mark.parametrize("place", range(len(work())))
def test_one_outlier_is_survived_and_named(place: int, factor: float) -> None:
    spoilt = rows(0.003)
    spoilt[place] = msgspec.structs.replace(spoilt[place], measured=spoilt[place].measured * factor)
    found = fit(spoilt, BASE)
    wrong = errors(found.clock)
    assert max(abs(wrong["hz"]), abs(wrong["bandwidth"]), abs(wrong["latency"])) < 0.05
    assert abs(wrong["chunk_bytes"]) < 0.2
    assert found.residuals[place].outlier


def test_rows_that_do_not_fit_are_only_compared() -> None:
    extra = Row("transposes", "transpose", Work(1e5, 0, 0, 0), 2 * 1e5 / TRUTH.hz, fits=False)
    found = fit([*rows(0.0), extra], BASE)
    assert max(map(abs, errors(found.clock).values())) < 1e-6
    assert found.residuals[-1].ratio == pytest.approx(0.5)
    assert not found.residuals[-1].outlier


@pytest.mark.parametrize("seconds", [0.0, -1e-6, float("nan"), float("inf")])
def test_a_time_that_is_none_is_named(seconds: float) -> None:
    spoilt = rows(0.0)
    spoilt[3] = msgspec.structs.replace(spoilt[3], measured=seconds)
    with pytest.raises(CalibrationError, match="row 3") as caught:
        fit(spoilt, BASE)
    assert caught.value.kind == "times"


def test_too_few_rows() -> None:
    with pytest.raises(CalibrationError, match="at least 6") as caught:
        fit(rows(0.0)[:5], BASE)
    assert caught.value.kind == "rows"


def test_rows_without_products_do_not_tell_the_clock_rate() -> None:
    with pytest.raises(CalibrationError, match="clock rate") as caught:
        fit([copies_only(row) for row in rows(0.0)[:10]], BASE)
    assert caught.value.kind == "undetermined"


def test_rows_that_are_all_the_same_do_not_tell_constants_apart() -> None:
    mixed = Work(1e6, 1000, 1e9, 3e6)
    same = [Row(str(n), "", mixed, mixed.seconds(TRUTH)) for n in range(8)]
    with pytest.raises(CalibrationError, match="apart") as caught:
        fit(same, BASE)
    assert caught.value.kind == "undetermined"


def test_times_that_follow_no_constants_are_refused() -> None:
    draw = random.Random(1)
    wild = [
        msgspec.structs.replace(row, measured=row.measured * draw.choice((0.2, 1.0, 5.0)))
        for row in rows(0.0)
    ]
    with pytest.raises(CalibrationError) as caught:
        fit(wild, BASE)
    assert caught.value.kind == "spread"


def test_the_work_of_a_program_is_read_from_its_simulated_times() -> None:
    for item in work():
        found = work_of([item.seconds(clock) for clock in probes(BASE)], BASE)
        for name in ("cycles", "latencies", "bytes", "runs"):
            expected = getattr(item, name)
            assert getattr(found, name) == pytest.approx(expected, rel=1e-4, abs=1.0)
