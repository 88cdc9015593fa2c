"""Asks a worker with a TPU how long programs take, all of them in turn on the same inputs."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from maxkernel.executor import Executor
from maxkernel.judge.bound import Roofline
from maxkernel.judge.desk import failure_of
from maxkernel.judge.prepared import Prepared
from maxkernel.judge.stopwatch import measured, ratio
from maxkernel.judge.timing import too_fast
from maxkernel.types import Failure
from maxkernel.types.measure import Measured, MeasuredRatio
from maxkernel.types.messages import (
    DeviceReply,
    DeviceRequest,
    MeasureReply,
    MeasureRequest,
)

REPETITIONS = 20
"""Each on the inputs of its own published seed: 1, 2, 3 ..."""


class Measurement(msgspec.Struct, frozen=True):
    """Programs that were measured together."""

    device: str
    compiler: str
    programs: tuple[Measured, ...]
    speedup: MeasuredRatio | None
    """Of two programs: time of the second / time of the first."""
    doubts: tuple[str, ...] = ()
    """Why a time may be wrong, in words."""


def measure(
    executor: Executor, prepared: Prepared, programs: Sequence[tuple[str, bytes]]
) -> Measurement | Failure:
    """Times named programs, as they were exported for the simulated clock."""
    request = MeasureRequest(
        task=prepared.task,
        programs=tuple(data for _, data in programs),
        target=prepared.target.name,
        seeds=tuple(range(1, REPETITIONS + 1)),
    )
    reply = executor.submit(request).result()
    if not isinstance(reply, MeasureReply):
        return failure_of(reply, "time")
    names = [name for name, _ in programs]
    return measurement(names, reply, prepared.bound, prepared.compiler)


def measurement(
    names: Sequence[str], reply: MeasureReply, bound: Roofline, compiler: str
) -> Measurement | Failure:
    """What a worker's samples mean; a failure where they cannot be times.

    `compiler` is what the simulated times come from.
    """
    try:
        found = [
            measured(name, samples, reply.dispatch)
            for name, samples in zip(names, reply.samples, strict=True)
        ]
        pair = ratio(reply.samples[1], reply.samples[0]) if len(found) == 2 else None
    except ValueError as error:
        return Failure("time", "environment", f"no measured time: {error}", "measure once more")
    doubts = [f"{one.name}: {one.wall.text}" for one in found if one.wall.agrees is False]
    for one in found:
        failure = too_fast(one.time, bound)
        doubts += [f"{one.name}: {failure.message}"] if failure else []
    if reply.compiler != compiler:
        doubts.append(f"measured with {reply.compiler}, simulated with {compiler}")
    return Measurement(reply.device, reply.compiler, tuple(found), pair, tuple(doubts))


def find_tpu(executor: Executor) -> DeviceReply | Failure:
    """The TPU of this machine, asked of a worker that can see it."""
    reply = executor.submit(DeviceRequest()).result()
    return reply if isinstance(reply, DeviceReply) else failure_of(reply, "time")
