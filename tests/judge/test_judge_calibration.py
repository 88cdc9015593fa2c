"""A calibration file: what it must hold, when it is used, and that cached times change with it."""

import json
from pathlib import Path

import msgspec
import pytest

from maxkernel.config import Settings
from maxkernel.errors import UsageError
from maxkernel.judge.calibration import calibration_in_force
from maxkernel.judge.requests import compile_key, compile_request
from maxkernel.schedule.calibrated import (
    CalibrationFile,
    FileRow,
    file_name,
    read_calibration,
    write_calibration,
)
from maxkernel.targets import TARGETS
from maxkernel.types import Clock, Task

VERSIONS = {"jax": "0.10.2", "jaxlib": "0.10.2", "libtpu": "0.0.42.1"}
COMPILER = "jax 0.10.2, libtpu 0.0.42.1"
TARGET = TARGETS["v6e"]
CONTENT = CalibrationFile(
    format="maxkernel-calibration-1",
    target="v6e",
    device="TPU v6 lite",
    compiler=COMPILER,
    date="2020-01-02",
    clock=Clock(1.7e9, 1.3e12, 0.8e-6, 170.0, True),
    residual=0.01,
    expected_error=0.03,
    rows=(FileRow("gemm", "gemm", 1e-3, 1.01, True),),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "deep" / "mine.json"
    write_calibration(path, CONTENT)
    return path


def test_what_is_written_is_read(path: Path) -> None:
    assert read_calibration(path) == CONTENT
    assert [entry.name for entry in path.parent.iterdir()] == ["mine.json"]


def test_a_file_for_this_device_and_compiler_is_used_and_named(path: Path) -> None:
    found = calibration_in_force(Settings(calibration=str(path)), TARGET, VERSIONS)
    assert found is not None
    assert found.clock == CONTENT.clock
    assert found.error == 0.03
    assert "calibrated on a TPU v6 lite" in found.note
    assert "mine.json" in found.note


@pytest.mark.parametrize(
    ("target", "versions", "words"),
    [
        ("v5e", VERSIONS, "not v5e"),
        ("v6e", VERSIONS | {"libtpu": "0.0.43"}, "not jax 0.10.2, libtpu 0.0.43"),
        ("v6e", VERSIONS | {"jax": "0.9.2"}, "not jax 0.9.2"),
    ],
)
def test_a_file_for_another_device_or_compiler_is_not_used_and_that_is_said(
    path: Path, target: str, versions: dict[str, str], words: str
) -> None:
    found = calibration_in_force(Settings(calibration=str(path)), TARGETS[target], versions)
    assert found is not None
    assert found.clock is None
    assert "is not used" in found.note
    assert words in found.note


def test_the_default_is_a_file_for_each_device_and_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    settings = Settings()
    assert calibration_in_force(settings, TARGET, VERSIONS) is None
    write_calibration(settings.calibration_path / file_name("v6e", COMPILER), CONTENT)
    assert settings.calibration_path.is_relative_to(tmp_path)
    used = calibration_in_force(settings, TARGET, VERSIONS)
    assert used is not None
    assert used.clock == CONTENT.clock
    newer = calibration_in_force(settings, TARGET, VERSIONS | {"libtpu": "0.0.43"})
    assert newer is not None
    assert newer.clock is None
    assert calibration_in_force(settings, TARGETS["v5e"], VERSIONS) is None
    assert calibration_in_force(Settings(calibration="off"), TARGET, VERSIONS) is None


def test_a_named_file_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.json: cannot be read"):
        calibration_in_force(Settings(calibration=str(tmp_path / "none.json")), TARGET, VERSIONS)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "maxkernel-calibration-2"}, "format"),
        ({"surprise": 1}, "surprise"),
        ({"expected_error": -0.1}, "expected_error"),
        ({"clock": {"hz": 1.7e9}}, "clock"),
        ({"clock": msgspec.to_builtins(CONTENT.clock) | {"latency": 0.0}}, "latency"),
        ({"clock": msgspec.to_builtins(CONTENT.clock) | {"speed": 1.0}}, "speed"),
        ({"rows": [{"name": "gemm"}]}, "kind"),
    ],
)
def test_a_broken_file_is_named_with_its_fault(
    path: Path, change: dict[str, object], words: str
) -> None:
    path.write_text(json.dumps(msgspec.to_builtins(CONTENT) | change))
    with pytest.raises(UsageError, match=words) as caught:
        read_calibration(path)
    assert "mine.json" in caught.value.message
    assert "calibrate" in caught.value.advice


@pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe", b"[]"])
def test_what_is_no_calibration_file_is_refused(path: Path, text: bytes) -> None:
    path.write_bytes(text)
    with pytest.raises(UsageError, match=r"mine\.json"):
        read_calibration(path)


def test_cached_times_change_with_the_calibration(path: Path) -> None:
    task = Task("t", "maxkernel", "t.py", {"t.py": ""}, "digest")
    found = calibration_in_force(Settings(calibration=str(path)), TARGET, VERSIONS)
    assert found is not None
    other = msgspec.structs.replace(found, clock=Clock(1.7e9, 1.3e12, 0.9e-6, 170.0, True))
    keys = {
        compile_key(
            compile_request(task, b"program", TARGET, calibration=calibration), task, VERSIONS
        )
        for calibration in (None, found, other)
    }
    assert len(keys) == 3
