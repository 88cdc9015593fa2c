"""Answers MeasureRequest and DeviceRequest: programs on a real TPU, by the device's own clock.

Every repetition draws inputs from a seed of its own; all programs run on them, in turns, and the
profiler's trace says how long each run took. Afterwards the host's clock times calls that do not
wait for each other, as a second witness.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import itertools
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
from jax.sharding import SingleDeviceSharding

from maxkernel.targets import TARGETS
from maxkernel.types.measure import Samples
from maxkernel.types.messages import DeviceReply, DeviceRequest, MeasureReply, MeasureRequest
from maxkernel.types.task import Task
from maxkernel.worker.arguments import drawing
from maxkernel.worker.compile import compiler
from maxkernel.worker.exporting import structs_on
from maxkernel.worker.failures import Refused, candidate_failure, first_line, refuse
from maxkernel.worker.task_module import load
from maxkernel.worker.traces import Execution, TraceError, executions, find_trace, read_trace

BATCHES = 5
"""Batches of calls that the host's clock times."""
BATCH_SECONDS = 0.1
"""How long a batch should take."""
CALLS = (3, 200)
"""Fewest and most calls of a batch."""

Draw = Callable[[int], Sequence[Any]]
"""From a seed to a program's inputs, on the device and there already."""


@dataclass(frozen=True)
class Program:
    """A compiled program and the name of its module in a trace."""

    run: Callable[..., Any]
    module: str


def find_device(_: DeviceRequest) -> DeviceReply:
    """The TPU that jax finds. Raises Refused (kind `environment`)."""
    devices = _tpus()
    return DeviceReply(devices[0].device_kind, len(devices))


def measure_programs(request: MeasureRequest) -> MeasureReply:
    """Times every program on the first TPU device.

    Raises Refused: `environment` where there is no such TPU or its trace does not say how long a
    program took; `inputs`; else the kinds of a compile.
    """
    device = _tpus()[0]
    wanted = TARGETS[request.target]
    if device.device_kind != wanted.device_kind:
        names = [t.name for t in TARGETS.values() if t.device_kind == device.device_kind]
        refuse(
            "time",
            "environment",
            f"this machine has a {device.device_kind}, and the target is {wanted.name}"
            f" ({wanted.device_kind})",
            f"--target {names[0]}" if names else "maxkernel knows no such target",
        )
    programs = compiled_for(device, request.programs)
    draw = drawing_for(device, request.task)
    folder = Path(tempfile.mkdtemp(prefix="trace-"))
    try:
        trace_turns(programs, draw, request.seeds, request.warm_ups, folder)
        found = _read(folder, programs, len(request.seeds), wanted.cores)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    inputs = draw(request.seeds[-1])
    walls = [wall_times(program.run, inputs) for program in programs]
    return MeasureReply(
        samples=tuple(map(_samples, found, walls)),
        dispatch=dispatch_times(device),
        device=device.device_kind,
        compiler=compiler(),
    )


def compiled_for(device: Any, programs: Sequence[bytes]) -> list[Program]:
    """Exported programs, compiled under names of their own. Raises Refused as a compile does."""
    made: list[Program] = []
    for number, data in enumerate(programs):
        try:
            exported = jax.export.deserialize(bytearray(data))
            structs = structs_on(exported, SingleDeviceSharding(device))
            function = _named(exported.call, f"maxkernel_program_{number}")
            run = jax.jit(function).lower(*structs).compile()
        except Exception as error:
            raise Refused(candidate_failure(error, "compile")) from error
        made.append(Program(run, f"jit_maxkernel_program_{number}"))
    return made


def drawing_for(device: Any, task: Task) -> Draw:
    """Draws the task's full-size inputs on the CPU and puts them on the device."""
    cpu = jax.devices("cpu")[0]
    with jax.default_device(cpu):
        module = load(task)
        made = drawing(module, module.full, "inputs")

    def draw(seed: int) -> Sequence[Any]:
        with jax.default_device(cpu):
            arrays = made(seed).arrays
        return jax.block_until_ready([jax.device_put(array, device) for array in arrays])

    return draw


def trace_turns(
    programs: Sequence[Program], draw: Draw, seeds: Sequence[int], warm_ups: int, folder: Path
) -> None:
    """Runs all programs once per seed while the profiler writes to `folder`, one at a time.

    Every second repetition has them in the opposite order, so that none always comes first.
    """
    inputs = draw(seeds[0])
    for program in programs:
        for _ in range(warm_ups):
            jax.block_until_ready(program.run(*inputs))
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    options.host_tracer_level = 0
    with jax.profiler.trace(str(folder), profiler_options=options):
        for turn, seed in enumerate(seeds):
            inputs = draw(seed)
            for program in programs if turn % 2 == 0 else reversed(programs):
                jax.block_until_ready(program.run(*inputs))


def wall_times(run: Callable[..., Any], inputs: Sequence[Any]) -> tuple[float, ...]:
    """Seconds per call, for `BATCHES` batches of calls that are waited for together."""
    once = _batch(run, inputs, 1)
    calls = min(CALLS[1], max(CALLS[0], int(BATCH_SECONDS / once)))
    return tuple(_batch(run, inputs, calls) for _ in range(BATCHES))


def dispatch_times(device: Any) -> tuple[float, ...]:
    """The same for a program that does next to nothing: what the host needs for any call."""
    one = jax.device_put(jnp.zeros((), jnp.float32), device)
    run = jax.jit(jnp.negative).lower(one).compile()
    return wall_times(run, [one])


def _batch(run: Callable[..., Any], inputs: Sequence[Any], calls: int) -> float:
    started = time.perf_counter()
    result = None
    for _ in itertools.repeat(None, calls):
        result = run(*inputs)
    jax.block_until_ready(result)
    return (time.perf_counter() - started) / calls


def _read(
    folder: Path, programs: Sequence[Program], turns: int, cores: int
) -> list[Sequence[Execution]]:
    try:
        trace = read_trace(find_trace(folder))
        found = [executions(trace, program.module, cores) for program in programs]
        for program, runs in zip(programs, found, strict=True):
            if len(runs) != turns:
                raise TraceError(
                    "no program", f"{program.module} ran {turns} times and is shown {len(runs)}"
                )
    except TraceError as error:
        refuse(
            "time",
            "environment",
            f"the profiler's trace does not say how long a program took: {error}",
            "--provenance simulated; if the trace is of another layout, report it",
        )
    return list(found)


def _samples(runs: Sequence[Execution], wall: tuple[float, ...]) -> Samples:
    names = {name for run in runs for name in run.ops}
    return Samples(
        device=tuple(run.seconds for run in runs),
        busy=tuple(run.busy for run in runs),
        wall=wall,
        ops={name: statistics.fmean(run.ops.get(name, 0.0) for run in runs) for name in names},
    )


def _tpus() -> list[Any]:
    try:
        return jax.devices("tpu")
    except RuntimeError as error:
        refuse(
            "time",
            "environment",
            f"no TPU answers: {first_line(str(error))}",
            "end other programs that hold the TPU; if none does, try --unsafe-no-sandbox once:"
            " the sandbox may hide what libtpu looks for",
        )


def _named(call: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The call under a name that a trace shows."""

    def function(*arrays: Any) -> Any:
        return call(*arrays)

    function.__name__ = function.__qualname__ = name
    return function
