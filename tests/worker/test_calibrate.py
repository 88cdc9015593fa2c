"""Calibration from compiled microkernels to constants, and that simulations use them.

There is no TPU: the measured times are simulated ones, with other constants and some noise.
"""

import random
from pathlib import Path

import msgspec
import pytest
from worker_samples import RMSNORM

from maxkernel.api.calibration import Calibrated, calibrate
from maxkernel.cli.calibrate import print_calibrated
from maxkernel.config import Settings
from maxkernel.errors import EnvironmentFault
from maxkernel.executor import LocalExecutor
from maxkernel.judge import Cache, Judge
from maxkernel.schedule.calibrated import read_calibration, write_calibration
from maxkernel.schedule.constants import clock_of
from maxkernel.suites.microkernels import MICROKERNELS
from maxkernel.targets import TARGETS
from maxkernel.types import Calibration, Clock, Task
from maxkernel.types.messages import CompileReply, CompileRequest

TRUTH = Clock(1.6e9, 1.2e12, 0.9e-6, 220.0, True)
NAMES = (
    "read 1 MiB, 2 in flight",
    "write 256 KiB, 4 in flight",
    "read 4 KiB, one at a time",
    "read runs of 512 B",
    "read runs of 1 KiB",
    "gemm 512 x 1024 x 512",
    "gemm 256 x 512 x 512",
    "transposes",
)


@pytest.fixture(scope="module")
def found(executor: LocalExecutor) -> Calibrated:
    draw = random.Random(5)

    def measure(task: Task, program: bytes) -> float:
        if task.name == "read_runs_of_1_KiB":
            raise EnvironmentFault("no time from this one")
        request = CompileRequest(program, "v6e", calibration=Calibration("", TRUTH))
        reply = executor.submit(request).result()
        assert isinstance(reply, CompileReply), reply
        assert reply.program
        noise = 1 + draw.gauss(0, 0.002)
        return reply.program.seconds * noise * (2 if task.name == "transposes" else 1)

    chosen = [item for item in MICROKERNELS if item.name in NAMES]
    extra = msgspec.structs.replace(chosen[3], name="again")
    return calibrate(executor, TARGETS["v6e"], measure, microkernels=[*chosen, extra])


def test_the_constants_are_found_from_compiled_microkernels(found: Calibrated) -> None:
    clock = found.content.clock
    assert clock.hz == pytest.approx(TRUTH.hz, rel=0.02)
    assert clock.bandwidth == pytest.approx(TRUTH.bandwidth, rel=0.02)
    assert clock.latency == pytest.approx(TRUTH.latency, rel=0.03)
    assert clock.chunk_bytes == pytest.approx(TRUTH.chunk_bytes, rel=0.1)
    assert found.content.expected_error < 0.02


def test_a_microkernel_without_a_time_is_left_out_and_named(found: Calibrated) -> None:
    assert found.skipped == ("read runs of 1 KiB: no time from this one",)
    assert "read runs of 1 KiB" not in {row.name for row in found.content.rows}


def test_vector_work_is_compared_and_not_fitted(found: Calibrated) -> None:
    (row,) = [row for row in found.content.rows if row.kind == "transpose"]
    assert not row.fitted
    assert row.ratio == pytest.approx(0.5, rel=0.05)


def test_the_result_is_a_valid_file(found: Calibrated, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    write_calibration(path, found.content)
    assert read_calibration(path) == found.content


def test_the_table_names_constants_and_what_was_left_out(
    found: Calibrated, capsys: pytest.CaptureFixture[str]
) -> None:
    print_calibrated(found, Path("somewhere.json"))
    text = capsys.readouterr().out
    assert f"{clock_of(TARGETS['v6e']).bandwidth / 1e9:.0f} GB/s" in text
    assert "compared only" in text
    assert "left out: read runs of 1 KiB" in text
    assert "somewhere.json" in text


def test_without_any_time_it_says_why(executor: LocalExecutor) -> None:
    def measure(task: Task, program: bytes) -> float:
        raise EnvironmentFault("the TPU is held by another program")

    with pytest.raises(EnvironmentFault, match=r"at least 6.*held by another program"):
        calibrate(executor, TARGETS["v6e"], measure, microkernels=MICROKERNELS[12:13])


def test_the_judge_times_with_the_calibrated_constants_and_says_so(
    found: Calibrated, executor: LocalExecutor, tmp_path: Path
) -> None:
    target, path, cache = TARGETS["v6e"], tmp_path / "mine.json", Cache(tmp_path)
    halved = msgspec.structs.replace(found.content.clock, bandwidth=TRUTH.bandwidth / 2)
    content = msgspec.structs.replace(found.content, clock=halved, expected_error=0.3)
    settings = Settings(calibration=str(path))
    plain = Judge(executor, target, Settings(calibration="off"), cache).prepare(RMSNORM)
    write_calibration(path, content)
    judge = Judge(executor, target, settings, cache)
    slow = judge.prepare(RMSNORM)
    assert set(judge.versions) - {"jax", "jaxlib", "libtpu"} == {"clock"}
    assert slow.baseline.seconds > 1.3 * plain.baseline.seconds
    assert slow.baseline_program and slow.baseline_program.calibration
    assert "mine.json" in slow.baseline_program.assumptions[0]
    assert slow.baseline.expected_error and slow.baseline.expected_error >= 0.3
    write_calibration(path, msgspec.structs.replace(content, compiler="jax 1, libtpu 1"))
    judge = Judge(executor, target, settings, cache)
    other = judge.prepare(RMSNORM)
    assert "clock" not in judge.versions
    assert other.baseline.seconds == plain.baseline.seconds
    assert other.baseline_program
    assert "is not used" in other.baseline_program.assumptions[0]
    cache.close()
