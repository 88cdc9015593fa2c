"""Microkernels compile for the TPU, and their simulated time is linear in the clock's constants."""

import msgspec
import pytest

from maxkernel.executor import LocalExecutor
from maxkernel.schedule import expected_error
from maxkernel.schedule.calibration import probes, work_of
from maxkernel.schedule.constants import clock_of
from maxkernel.suites.microkernels import MICROKERNELS, task_of
from maxkernel.targets import TARGETS
from maxkernel.types import Calibration
from maxkernel.types.messages import CompileReply, CompileRequest, TraceReply, TraceRequest

BASE = clock_of(TARGETS["v6e"])
OTHER = msgspec.structs.replace(BASE, hz=1.6e9, bandwidth=1.2e12, latency=0.9e-6, chunk_bytes=200.0)
"""The four constants that calibration fits are others; what it keeps of the target stays."""


def test_names_are_unique() -> None:
    assert len({item.name for item in MICROKERNELS}) == len(MICROKERNELS)
    assert len({task_of(item).digest for item in MICROKERNELS}) == len(MICROKERNELS)


@pytest.mark.parametrize("name", ["write runs of 512 B", "gemm 256 x 512 x 512"])
def test_its_work_predicts_the_time_with_other_constants(
    executor: LocalExecutor, name: str
) -> None:
    microkernel = next(item for item in MICROKERNELS if item.name == name)
    traced = executor.submit(TraceRequest(task_of(microkernel), "v6e", 1 << 40)).result()
    assert isinstance(traced, TraceReply), traced

    request = CompileRequest(
        traced.info.reference_tpu,
        "v6e",
        calibration=Calibration("from a test", OTHER, 0.5),
        probes=probes(BASE),
    )
    reply = executor.submit(request).result()
    assert isinstance(reply, CompileReply), reply
    program = reply.program
    assert program, reply.schedule_problem
    work = work_of(reply.probed, BASE)
    assert work.seconds(OTHER) == pytest.approx(program.seconds, rel=1e-3)
    assert abs(work.seconds(BASE) / program.seconds - 1) > 0.01
    assert program.clock_hz == OTHER.hz
    assert program.assumptions[0] == "from a test"
    dominant = work.runs * 200.0 / OTHER.bandwidth if "runs" in name else work.cycles / OTHER.hz
    assert dominant > 0.2 * program.seconds
    assert expected_error(program) >= 0.5
