"""Which constants the clock has is told: by `doctor`, in a profile, in a verdict and its bundle."""

from pathlib import Path

import msgspec
import pytest

from maxkernel.cli import doctor, tables
from maxkernel.schedule import digest
from maxkernel.schedule.calibrated import CalibrationFile, FileRow, file_name, write_calibration
from maxkernel.types import (
    Calibration,
    Candidate,
    Clock,
    Evaluation,
    OpTime,
    ProgramTime,
)

VERSIONS = {"jax": "0.10.2", "jaxlib": "0.10.2", "libtpu": "0.0.42.1"}
COMPILER = "jax 0.10.2, libtpu 0.0.42.1"
CLOCK = Clock(1.7e9, 1.3e12, 0.8e-6, 170.0, True)
CONTENT = CalibrationFile(
    format="maxkernel-calibration-1",
    target="v6e",
    device="TPU v6 lite",
    compiler=COMPILER,
    date="2020-01-02",
    clock=CLOCK,
    residual=0.01,
    expected_error=0.03,
    rows=(FileRow("gemm", "gemm", 1e-3, 1.01, True),),
)


def found(monkeypatch: pytest.MonkeyPatch, setting: Path | str) -> doctor.Finding:
    monkeypatch.setenv("MAXKERNEL_CALIBRATION", str(setting))
    return doctor._clock(VERSIONS)  # pyright: ignore[reportPrivateUsage]


def test_doctor_names_the_device_and_the_compiler_of_a_calibration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_calibration(tmp_path / "mine.json", CONTENT)
    told = found(monkeypatch, tmp_path / "mine.json")
    assert told.ok and not told.advice
    assert "TPU v6 lite" in told.text and COMPILER in told.text and "mine.json" in told.text


def test_doctor_says_why_a_calibration_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = msgspec.structs.replace(CONTENT, compiler="jax 0.9.2, libtpu 0.0.37")
    write_calibration(tmp_path / "old.json", other)
    told = found(monkeypatch, tmp_path / "old.json")
    assert told.ok and "calibrate" in told.advice
    assert "old.json is not used" in told.text and f"not {COMPILER}" in told.text


def test_doctor_looks_through_the_folder_of_calibrations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert "published constants" in found(monkeypatch, "").text
    folder = tmp_path / "maxkernel" / "calibration"
    write_calibration(folder / file_name("v6e", COMPILER), CONTENT)
    told = found(monkeypatch, "").text
    assert "calibrated on a TPU v6 lite" in told and told.count("calibrated") == 1
    assert "published constants for every target: calibration is off" in (
        found(monkeypatch, "off").text
    )


def test_a_broken_calibration_fails_in_doctor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bad.json").write_text("{")
    told = found(monkeypatch, tmp_path / "bad.json")
    assert not told.ok and "bad.json" in told.text and told.advice
    assert not found(monkeypatch, tmp_path / "none.json").ok


def program(calibration: Calibration | None) -> ProgramTime:
    op = OpTime("k.1", "kernel", 1, 1e-3, 1.7e6, 0.0)
    notes = (calibration.note, "something") if calibration else ("something",)
    return ProgramTime(
        "v6e", 1e-3, 1.7e6, (op,), CLOCK.hz, assumptions=notes, calibration=calibration
    )


def test_a_profile_tells_a_calibrated_clock_from_what_was_assumed() -> None:
    lines = digest(program(Calibration("constants of mine.json", CLOCK, 0.03)))
    assert "clock: constants of mine.json" in lines and "assumed: something" in lines
    assert not any(line.startswith("assumed: constants") for line in lines)
    assert not any(line.startswith("clock:") for line in digest(program(None)))


def test_a_verdict_names_a_calibrated_clock() -> None:
    told = [
        tables._clock(  # pyright: ignore[reportPrivateUsage]
            Evaluation(Candidate("source"), "task", "v6e", "none", program=program(calibration))
        )
        for calibration in (Calibration("constants of mine.json", CLOCK, 0.03), None)
    ]
    assert told == [[("clock", "constants of mine.json")], []]
