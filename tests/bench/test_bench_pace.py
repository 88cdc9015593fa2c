"""Slow tasks start first, and the estimate of the rest follows what finished tasks took."""

from pathlib import Path

import msgspec
import pytest

from maxkernel import suites
from maxkernel.bench import BenchResult, Row, Settings
from maxkernel.bench import pace as pace_module
from maxkernel.bench.pace import Pace, guessed_seconds, recorded_seconds
from maxkernel.bench.result import FORMAT, save_result

SETTINGS = Settings("jaxbench", "hardened", "v6e", "builtin", "auto", 8, 60.0)


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(pace_module, "time", made)
    return made


def test_records_come_before_guesses() -> None:
    pace = Pace({"a": 10.0, "b": 300.0, "gone": 9.0}, {"a": 90.0, "b": 60.0, "c": 60.0}, 2)
    assert pace.order() == ["b", "c", "a"]


def test_the_estimate_follows_what_tasks_took(clock: Clock) -> None:
    pace = Pace({}, dict.fromkeys("abcd", 60.0), 2)
    assert pace.rest() == pytest.approx(120)
    pace.started("a")
    pace.started("b")
    clock.now += 30
    assert pace.rest() == pytest.approx((30 + 30 + 60 + 60) / 2)
    pace.finished("a")
    assert pace.rest() == pytest.approx((3 + 30 + 30) / 2), "twice as fast as guessed"
    clock.now += 90
    assert pace.rest() == pytest.approx((7.5 + 75 + 75) / 2), "b is late: 150 s for 120 s"
    pace.finished("b")
    assert pace.rest() == pytest.approx(75 * 2 / 2)
    pace.started("c")
    pace.started("d")
    clock.now += 75
    pace.finished("c")
    pace.finished("d")
    assert pace.rest() == 0


def test_one_long_task_is_the_end_of_it(clock: Clock) -> None:
    assert Pace({"a": 500.0}, {"a": 60.0, "b": 60.0}, 2).rest() == pytest.approx(500)


def test_records_of_earlier_tables(tmp_path: Path) -> None:
    def keep(name: str, *rows: Row) -> None:
        save_result(tmp_path / name, BenchResult(FORMAT, SETTINGS, {}, 0.0, rows))

    old = Row("a", "d", "xla", seconds=10.0, made=1.0)
    keep("bench-jaxbench-v6e-1", old, Row("b", "d", "error", seconds=5.0, made=9.0))
    keep("bench-jaxbench-v6e-2", msgspec.structs.replace(old, seconds=20.0, made=2.0))
    keep("bench-models-v6e-3", Row("w", "d", "xla", seconds=30.0, made=2.0))
    (tmp_path / "bench-jaxbench-v6e-4").mkdir()
    (tmp_path / "bench-jaxbench-v6e-4" / "bench.json").write_text("{")
    assert recorded_seconds(tmp_path, "jaxbench") == {"a": 20.0}


def test_guesses_put_long_programs_first() -> None:
    def guess(name: str) -> float:
        return guessed_seconds(suites.entry("jaxbench", name), "hardened")

    assert guess("2p") > guess("8p") > guess("41k")
