"""Answers CompileRequest: the real TPU compiler on an exported program, and its schedule's time."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false

from __future__ import annotations

import functools
import importlib.metadata
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.export
import msgspec
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding

from maxkernel.schedule import ScheduleError, dump_flags, simulate_draws
from maxkernel.targets import TARGETS, Target
from maxkernel.types.clock import Calibration, Clock, ProgramTime
from maxkernel.types.messages import CompileReply, CompileRequest
from maxkernel.worker.exporting import structs_on
from maxkernel.worker.failures import Refused, candidate_failure
from maxkernel.worker.scalars import Data, scalars_of

_MEMORY = {
    "argument": "argument_size_in_bytes",
    "output": "output_size_in_bytes",
    "temp": "temp_size_in_bytes",
    "alias": "alias_size_in_bytes",
    "code": "generated_code_size_in_bytes",
}


def compile_program(request: CompileRequest) -> CompileReply:
    """Compiles for the TPU and simulates the schedule that the compiler dumps.

    Raises Refused with the compiler's own words: kinds `vmem`, `hbm`, `block_shape`,
    `unsupported`, `compile`. A schedule that cannot be read is no failure: see the reply.
    """
    target = TARGETS[request.target]
    folder = _dump_folder()
    _clear(folder)
    sharding = _sharding(target)
    started = time.perf_counter()
    try:
        exported = jax.export.deserialize(bytearray(request.program))
        traced = jax.jit(exported.call).trace(*structs_on(exported, sharding))
        compiled = traced.lower(lowering_platforms=("tpu",)).compile()
    except Exception as error:
        raise Refused(candidate_failure(error, "compile")) from error
    compiled_at = time.perf_counter()
    data = scalars_of(exported, request.task, request.seeds) if request.task else Data({})
    drawn_at = time.perf_counter()
    program, problem = _simulate(folder, target, data, request.calibration)
    probed = _probe(folder, target, data, request.probes) if program else ()
    return CompileReply(
        program=program,
        memory=_memory(compiled),
        compile_seconds=compiled_at - started,
        simulate_seconds=time.perf_counter() - drawn_at,
        data_seconds=drawn_at - compiled_at,
        compiler=compiler(),
        schedule_problem=problem,
        probed=probed,
    )


def warm_up() -> None:
    """Loads libtpu, so that the first compile does not pay for it."""
    _sharding(TARGETS["v6e"])


@functools.cache
def compiler() -> str:
    """Versions that decide what a compiled program is."""
    names = ("jax", "libtpu")
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)


@functools.cache
def _sharding(target: Target) -> SingleDeviceSharding:
    _dump_folder()
    topology = topologies.get_topology_desc(target.topology, "tpu", **dict(target.topology_options))
    return SingleDeviceSharding(topology.devices[0])


@functools.cache
def _dump_folder() -> Path:
    """The folder that libtpu dumps to. libtpu reads its flags once, when it is loaded."""
    folder = Path(tempfile.gettempdir()) / "schedule"
    folder.mkdir(exist_ok=True)
    os.environ["LIBTPU_INIT_ARGS"] = dump_flags(folder, importlib.metadata.version("libtpu"))
    return folder


def _clear(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)


def _simulate(
    folder: Path, target: Target, data: Data, calibration: Calibration | None
) -> tuple[ProgramTime | None, str]:
    try:
        program = simulate_draws(
            folder, target, data.draws, compiler=compiler(), calibration=calibration
        )
    except ScheduleError as error:
        return None, f"{error} ({error.kind}; written by {compiler()})"
    assumptions = (*program.assumptions, *data.notes)
    return msgspec.structs.replace(program, assumptions=assumptions), ""


def _probe(folder: Path, target: Target, data: Data, clocks: Sequence[Clock]) -> tuple[float, ...]:
    """Seconds with other constants, of a schedule that has been simulated before."""
    return tuple(
        simulate_draws(folder, target, data.draws, calibration=Calibration("", clock)).mean_seconds
        for clock in clocks
    )


def _memory(compiled: Any) -> dict[str, int]:
    analysis = compiled.memory_analysis()
    return {
        name: int(getattr(analysis, field))
        for name, field in _MEMORY.items()
        if getattr(analysis, field, None) is not None
    }
