"""Measuring, as far as a machine without a TPU goes: everything but the device's own clock."""

from pathlib import Path
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from trace_layout import events, write

from maxkernel.executor import LocalExecutor
from maxkernel.tasks import task_from_text
from maxkernel.types import Failure
from maxkernel.types.messages import DeviceRequest, FailureReply
from maxkernel.worker import measure
from maxkernel.worker.failures import Refused
from maxkernel.worker.measure import Program
from maxkernel.worker.traces import find_trace, read_trace

TEXT = """
import jax

TOLERANCE = {"atol": 1e-2, "rtol": 1e-2}


def reference(x):
    return x * 2


def inputs(key):
    return (jax.random.normal(key, (8, 128)),)
"""


@pytest.fixture(scope="module")
def programs() -> list[Program]:
    struct = jax.ShapeDtypeStruct((8, 128), jnp.float32)
    exports = [
        jax.export.export(jax.jit(function), platforms=["cpu"])(struct).serialize()
        for function in (lambda x: x * 2, lambda x: x + x)
    ]
    return measure.compiled_for(jax.devices("cpu")[0], [bytes(data) for data in exports])


def test_programs_keep_apart_by_name_and_compute_what_they_should(programs: list[Program]) -> None:
    x = jnp.ones((8, 128))
    assert [program.module for program in programs] == [
        "jit_maxkernel_program_0", "jit_maxkernel_program_1",
    ]  # fmt: skip
    for program in programs:
        compiled: Any = program.run
        assert f"HloModule {program.module}" in compiled.as_text()
        assert np.array_equal(program.run(x), np.full((8, 128), 2.0))


def test_every_repetition_has_fresh_inputs_and_turns_alternate(
    programs: list[Program], tmp_path: Path
) -> None:
    ran: list[tuple[str, float]] = []

    def noted(program: Program) -> Program:
        def run(x: Any) -> Any:
            ran.append((program.module[-1], float(x[0, 0])))
            return program.run(x)

        return Program(run, program.module)

    task = task_from_text("double", "maxkernel", "task.py", {"task.py": TEXT})
    draw = measure.drawing_for(jax.devices("cpu")[0], task)
    measure.trace_turns([noted(p) for p in programs], draw, (5, 6, 7), 1, tmp_path)
    timed = ran[2:]
    assert [name for name, _ in timed] == ["0", "1", "1", "0", "0", "1"]
    assert len({value for _, value in timed}) == 3
    assert read_trace(find_trace(tmp_path))


def test_wall_times_are_those_of_a_call(programs: list[Program]) -> None:
    times = measure.wall_times(programs[0].run, [jnp.ones((8, 128))])
    assert len(times) == measure.BATCHES
    assert all(0 < seconds < 0.1 for seconds in times)
    assert len(measure.dispatch_times(jax.devices("cpu")[0])) == measure.BATCHES


def test_a_trace_without_a_tpu_is_a_failure_in_words(
    programs: list[Program], tmp_path: Path
) -> None:
    x = jnp.ones((8, 128))
    measure.trace_turns(programs, lambda _: [x], (1,), 0, tmp_path)
    with pytest.raises(Refused) as caught:
        measure._read(tmp_path, programs, 1, 1)  # pyright: ignore[reportPrivateUsage]
    failure = caught.value.failure
    assert (failure.stage, failure.kind) == ("time", "environment")
    assert "no TPU" in failure.message and failure.advice


def test_a_worker_that_measures_says_that_no_tpu_answers(executor: LocalExecutor) -> None:
    reply = executor.submit(DeviceRequest()).result(90)
    assert isinstance(reply, FailureReply)
    failure: Failure = reply.failure
    assert (failure.stage, failure.kind) == ("time", "environment")
    assert "no TPU answers" in failure.message


def test_samples_come_from_every_turn_of_a_trace(programs: list[Program], tmp_path: Path) -> None:
    lines: dict[str, list[tuple[str, float, float]]] = {"XLA Modules": [], "XLA Ops": []}
    for turn in range(3):
        for number, seconds in ((0, 10.0), (1, 20.0)):
            start = 100.0 * turn + 40.0 * number
            name = f"jit_maxkernel_program_{number}({number}77)"
            lines["XLA Modules"].append((name, start, seconds + turn))
            lines["XLA Ops"] += [("fusion", start, 4.0), ("custom-call", start + 5.0, 3.0 + turn)]
    folder = tmp_path / "plugins" / "profile" / "now"
    folder.mkdir(parents=True)
    write(folder, events(1, "/device:TPU:0", lines))
    found = measure._read(tmp_path, programs, 3, 1)  # pyright: ignore[reportPrivateUsage]
    first, second = (
        measure._samples(runs, (1.0,))  # pyright: ignore[reportPrivateUsage]
        for runs in found
    )
    assert first.device == pytest.approx((10e-6, 11e-6, 12e-6))
    assert second.device == pytest.approx((20e-6, 21e-6, 22e-6))
    assert first.busy == pytest.approx((7e-6, 8e-6, 9e-6))
    assert first.ops == pytest.approx({"fusion": 4e-6, "custom-call": 4e-6})
    with pytest.raises(Refused, match="ran 4 times and is shown 3"):
        measure._read(tmp_path, programs, 4, 1)  # pyright: ignore[reportPrivateUsage]
