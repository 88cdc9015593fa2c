"""`maxkernel profile --provenance`: refused in one line without a TPU, and its words with one."""

from pathlib import Path
from typing import Any

import pytest

from maxkernel.cli import doctor, measured
from maxkernel.errors import EnvironmentFault, UsageError
from maxkernel.executor.devices import tpu_device_files
from maxkernel.judge import Measurement
from maxkernel.judge.stopwatch import measured as clocked
from maxkernel.judge.stopwatch import ratio
from maxkernel.types import Failure
from maxkernel.types.measure import Samples

needs_no_tpu = pytest.mark.skipif(bool(tpu_device_files()), reason="there is a TPU here")


@needs_no_tpu
def test_measured_without_a_tpu_is_one_line_and_status_3(new_cli: Any, tmp_path: Path) -> None:
    status, out, err = new_cli(tmp_path).run("profile", "norm.py", "--provenance", "measured")
    assert status == 3 and not out
    error, advice = err.strip().splitlines()
    assert error.startswith("error: no TPU on this machine")
    assert "--provenance simulated" in advice


@needs_no_tpu
def test_what_is_measured_without_a_tpu() -> None:
    assert not measured.measures(None)
    assert not measured.measures("simulated")
    with pytest.raises(UsageError, match="no such clock"):
        measured.measures("stopwatch")


@needs_no_tpu
def test_doctor_says_that_there_is_no_tpu_and_starts_nothing() -> None:
    finding = doctor._tpu()  # pyright: ignore[reportPrivateUsage]
    assert finding.ok and "no TPU on this machine" in finding.text


def test_where_a_tpu_may_be_the_profile_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "tpu_device_files", lambda: (Path("/dev/accel0"),))
    assert measured.measures(None) and measured.measures("measured")
    assert not measured.measures("simulated")


def samples(seconds: float, drift: float = 0.0) -> Samples:
    device = tuple(seconds * (1 + 0.001 * (n % 5) + drift * n) for n in range(20))
    return Samples(device, device, (seconds * 1.02,), {"custom-call.1": seconds})


def both(kernel: Samples, xla: Samples) -> Measurement:
    programs = (clocked("kernel.py", kernel, [1e-5]), clocked("XLA's program", xla, [1e-5]))
    return Measurement("TPU v6 lite", "jax 0.10.2", programs, ratio(xla, kernel))


def test_measured_times_stand_beside_simulated_ones_and_are_compared_with_each_other() -> None:
    text = "\n".join(measured.lines(both(samples(1e-3), samples(2e-3)), {"kernel.py": 0.9e-3}))
    assert "kernel.py: 1.002 ms measured, median of 20" in text
    assert "; simulated 0.900 ms" in text and text.count("simulated") == 1
    assert "kernel.py is 2.000x faster than XLA's program, both measured" in text
    assert "agree within 10%" in text and "100 % custom-call.1" in text


def test_no_claim_is_made_where_the_range_holds_one() -> None:
    noisy = Samples(
        tuple(1e-3 * (1.1 if n % 2 else 0.9) for n in range(20)), (1e-3,), (1e-3,)
    )  # fmt: skip
    text = "\n".join(measured.lines(both(noisy, samples(1e-3)), {}))
    assert "no claim" in text
    slower = "\n".join(measured.lines(both(samples(2e-3), samples(1e-3)), {}))
    assert "2.000x slower" in slower and "no claim" not in slower


def test_a_failure_is_a_note_beside_a_simulated_profile_and_an_error_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    silent = Failure("time", "environment", "no TPU answers: it is busy", "end other programs")
    assert measured.lines(silent, {})[0] == "note: not measured: no TPU answers: it is busy"
    with pytest.raises(EnvironmentFault, match="it is busy"):
        measured.show_only(silent, False)
    refused = Failure("check", "mismatch", "wrong numbers", "look at the body")
    assert measured.show_only(refused, True) == 1
    assert "wrong numbers" in capsys.readouterr().out
