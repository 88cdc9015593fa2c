"""What the judge makes of a measuring worker's samples."""

from maxkernel.judge import Measurement
from maxkernel.judge.bound import Roofline
from maxkernel.judge.measuring import measurement
from maxkernel.types import Failure
from maxkernel.types.measure import Samples
from maxkernel.types.messages import MeasureReply

BOUND = Roofline(compute=1e-5, memory=5e-4, floor=5e-4)
COMPILER = "jax 0.10.2, libtpu 0.0.42"


def samples(seconds: float, wall: float) -> Samples:
    device = (seconds,) * 8
    return Samples(device, device, (wall,) * 3)


def reply(*found: Samples) -> MeasureReply:
    return MeasureReply(found, (2e-5,) * 3, "TPU v6 lite", COMPILER)


def test_two_programs_are_compared_and_nothing_is_doubted() -> None:
    found = measurement(
        ["kernel", "xla"], reply(samples(1e-3, 1.01e-3), samples(3e-3, 3e-3)), BOUND, COMPILER
    )
    assert isinstance(found, Measurement)
    assert found.speedup is not None and abs(found.speedup.ratio - 3) < 1e-9
    assert [one.time.provenance for one in found.programs] == ["measured", "measured"]
    assert found.doubts == ()


def test_one_program_has_no_speedup() -> None:
    found = measurement(["xla"], reply(samples(1e-3, 1e-3)), BOUND, COMPILER)
    assert isinstance(found, Measurement) and found.speedup is None


def test_what_cannot_be_is_doubted() -> None:
    found = measurement(["kernel"], reply(samples(1e-4, 5e-4)), BOUND, "jax 0.9.2, libtpu 0.0.35")
    assert isinstance(found, Measurement)
    text = "\n".join(found.doubts)
    assert "does not show" in text and "below the 500.0 us" in text and "jax 0.9.2" in text


def test_samples_without_time_are_a_failure() -> None:
    found = measurement(["kernel"], reply(samples(0.0, 1e-3)), BOUND, COMPILER)
    assert isinstance(found, Failure) and found.stage == "time"
