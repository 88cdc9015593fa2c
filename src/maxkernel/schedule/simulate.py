"""The clock: the time of a compiled program, from the schedules that its compiler dumped."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from pathlib import Path

import msgspec

from maxkernel.schedule.constants import VMEM_BANDWIDTH, clock_of
from maxkernel.schedule.dma import DmaQueue
from maxkernel.schedule.folder import Dump, open_dump
from maxkernel.schedule.lines import lines_of
from maxkernel.schedule.opcodes import COUNTED
from maxkernel.schedule.operands import Known
from maxkernel.schedule.problem import ScheduleError, reading
from maxkernel.schedule.program import Core, Library, OpRun
from maxkernel.schedule.regions import copies_of, regions_of
from maxkernel.schedule.steady import prefetch_waits
from maxkernel.schedule.vmem import VmemReport, read_report
from maxkernel.targets import Target
from maxkernel.types import Calibration, Clock, Draw, OpTime, ProgramTime

_IDLE_SHARE = 0.1
"""Below this share of core 0's bytes, core 1 idles and core 0 has the chip's whole bandwidth."""
_DETAILED = 0.01
"""Share of the time from which an op of XLA is explained by its regions and copies."""
_ASSUMPTIONS = 40


def simulate(
    folder: Path,
    target: Target,
    *,
    compiler: str = "",
    known: Known | None = None,
    calibration: Calibration | None = None,
) -> ProgramTime:
    """The simulated execution of the program whose compile dumped into `folder`.

    `known` gives values of small integer inputs and operands; where they are missing the result
    says so in `assumptions`. Raises ScheduleError.
    """
    draws = {0: known or Known()}
    return simulate_draws(folder, target, draws, compiler=compiler, calibration=calibration)


def simulate_draws(
    folder: Path,
    target: Target,
    draws: Mapping[int, Known],
    *,
    compiler: str = "",
    calibration: Calibration | None = None,
) -> ProgramTime:
    """The same with the data of several seeds: the execution nearest to the mean of their times.

    `draws` of the result are the times of all seeds; empty where data does not matter. Raises
    ScheduleError.
    """
    with reading(str(folder)):
        return _simulate(folder, target, draws or {0: Known()}, compiler, calibration)


def _simulate(
    folder: Path,
    target: Target,
    draws: Mapping[int, Known],
    compiler: str,
    calibration: Calibration | None,
) -> ProgramTime:
    library = _open(folder, target)
    clock = clock_of(target, calibration)
    runs: dict[int, _Run] = {}
    for seed, known in draws.items():
        same = next((runs[other] for other in runs if draws[other] == known), None)
        runs[seed] = same or _run(library, target, clock, known)
    mean = statistics.fmean(run.seconds for run in runs.values())
    nearest = min(runs.values(), key=lambda run: abs(run.seconds - mean))
    program = _told(nearest, target, clock, compiler, calibration)
    if len({run.seconds for run in runs.values()}) == 1:
        return program
    found = tuple(Draw(seed, run.seconds) for seed, run in runs.items())
    return msgspec.structs.replace(program, draws=found)


class _Run(msgspec.Struct, frozen=True):
    """One execution on every core. `alone`: ops that one core runs while the other idles."""

    cores: list[Core]
    alone: dict[str, OpRun]
    slowest: dict[str, OpRun]
    """Of each op, the core on which it takes longest."""
    prefetched: Mapping[str, float]
    """Cycles waited for what the next execution needs, by the copy that fetches it."""
    cycles: float
    seconds: float


def _open(folder: Path, target: Target) -> Library:
    dump = open_dump(folder)
    talk = dump.hlo.collective()
    if talk:
        raise ScheduleError("collective", f"{folder}: {talk} talks to other chips")
    library = Library(dump, target)
    if not dump.has_module:
        raise ScheduleError("missing", f"{folder}: no *-TLP-hlo.txt, the module's text")
    return library


def _run(library: Library, target: Target, clock: Clock, known: Known) -> _Run:
    cores = [_core(library, clock, 0, 1 / target.cores, target.cores > 1, known)]
    alone: dict[str, OpRun] = {}
    if target.cores > 1 and library.uses_cores:
        cores.append(_core(library, clock, 1, 1 / target.cores, True, known, cores[0]))
        names = [name for name, op in cores[0].ops.items() if _idle(op, cores[1].ops.get(name))]
        full = _core(library, clock, 0, 1.0, True, known).ops if names else {}
        alone = {name: full[name] for name in names}
    slowest: dict[str, OpRun] = {}
    cycles = cores[0].cycles
    for name, op in cores[0].ops.items():
        runs = [core.ops[name] for core in cores if name in core.ops]
        slowest[name] = alone.get(name) or max(runs, key=lambda run: run.cycles)
        cycles += slowest[name].cycles - op.cycles
    prefetched = prefetch_waits(library.dump.hlo, cores, cycles, target, clock)
    cycles += sum(prefetched.values())
    return _Run(cores, alone, slowest, prefetched, cycles, cycles / clock.hz)


def _told(
    run: _Run, target: Target, clock: Clock, compiler: str, calibration: Calibration | None
) -> ProgramTime:
    """An execution with where its time went, and the constants that are not the published ones."""
    program = _result(run, target, clock, compiler)
    if calibration is None:
        return program
    notes = (calibration.note, *program.assumptions) if calibration.note else program.assumptions
    return msgspec.structs.replace(program, calibration=calibration, assumptions=notes)


def _core(
    library: Library,
    clock: Clock,
    number: int,
    share: float,
    paired: bool,
    known: Known,
    other: Core | None = None,
) -> Core:
    """One core's run; it sees what the `other` core has written."""
    queue = DmaQueue(
        bandwidth=clock.bandwidth * share / clock.hz,
        latency=clock.latency * clock.hz,
        piece=clock.chunk_bytes,
        vmem=VMEM_BANDWIDTH / clock.hz,
        burst=clock.burst_bytes * share or math.inf,
        sustained=clock.sustained,
        write_latency=clock.write_latency,
    )
    core = Core(library, queue, number, paired, clock.granule, known)
    if other is not None:
        core.machine.memory = other.machine.memory
    core.run()
    return core


def _idle(first: OpRun, second: OpRun | None) -> bool:
    moved = first.read_bytes + first.write_bytes
    other = second.read_bytes + second.write_bytes if second else 0.0
    return moved > 0 and other < _IDLE_SHARE * moved


def _result(run: _Run, target: Target, clock: Clock, compiler: str) -> ProgramTime:
    cores, cycles = run.cores, run.cycles
    first = cores[0]
    dump = first.library.dump
    vmem = read_report(dump.vmem)
    ops: list[OpTime] = []
    for name, slowest in run.slowest.items():
        if not name.startswith("<"):
            runs = [core.ops[name] for core in cores if name in core.ops]
            detailed = slowest.cycles > _DETAILED * first.cycles
            ops.append(_op_time(slowest, runs, dump, clock, vmem, detailed))
    copies = _async_copies(run, clock)
    glue = cycles - sum(op.cycles for op in ops) - sum(op.cycles for op in copies)
    ops = [*ops, *copies, OpTime("program", "glue", 1, glue / clock.hz, glue, 0.0)]
    ops.sort(key=lambda op: -op.cycles)
    assumptions = dict.fromkeys(text for core in cores for text in core.machine.assumptions)
    single = len(cores) < target.cores
    notes = _about(dump, clock, target, bool(run.alone), single)
    return ProgramTime(
        target=target.name,
        seconds=run.seconds,
        cycles=cycles,
        ops=tuple(ops),
        clock_hz=clock.hz,
        assumptions=(*notes, *list(assumptions)[:_ASSUMPTIONS]),
        unknown=dict(first.library.unknown),
        compiler=compiler,
        vmem_bytes=vmem.capacity,
    )


def _about(dump: Dump, clock: Clock, target: Target, alone: bool, single: bool) -> list[str]:
    notes: list[str] = []
    if not clock.measured:
        notes.append(f"{target.name}: no published measurement stands behind its memory constants")
    if alone:
        notes.append("one of the two cores idles in part of the program")
    if single:
        notes.append("compiled for one of the chip's two TensorCores, with half its bandwidth")
    sparse = 'async_execution_thread="sparsecore"'
    lines = dump.hlo.lines.items()
    hidden = [name for name, line in lines if " call-start(" in line and sparse in line]
    if hidden:
        notes.append(f"work on the SparseCore is not timed: {', '.join(hidden[:4])}")
    return notes


def _op_time(
    slowest: OpRun,
    runs: list[OpRun],
    dump: Dump,
    clock: Clock,
    vmem: VmemReport,
    detailed: bool,
) -> OpTime:
    units = [sum(column) for column in zip(*(run.units() for run in runs), strict=True)]
    kernel = dump.hlo.is_kernel(slowest.name)
    return OpTime(
        name=slowest.name,
        kind="kernel" if kernel else "xla",
        calls=slowest.calls,
        seconds=slowest.cycles / clock.hz,
        cycles=slowest.cycles,
        stall_cycles=slowest.stall,
        read_bytes=sum(run.read_bytes for run in runs),
        write_bytes=sum(run.write_bytes for run in runs),
        units={unit: count for unit, count in zip(COUNTED, units, strict=True) if count},
        hlo=dump.hlo.short(slowest.name),
        bundles=len(slowest.executable.program.bundles) if slowest.executable else 0,
        needed_bytes=dump.hlo.bytes_in_hbm(slowest.name) * slowest.calls,
        regions=regions_of(slowest, pressure=kernel) if kernel or detailed else (),
        copies=copies_of(slowest) if kernel or detailed else (),
        lines=lines_of(slowest) if kernel else (),
        buffers=vmem.of(slowest.name, dump.equal.get(slowest.name, "")) if kernel else (),
        trace=slowest.activity.recorder.events() if kernel else (),
    )


def _async_copies(run: _Run, clock: Clock) -> list[OpTime]:
    """Asynchronous copies of the top-level program: their time is what was waited for them."""
    dump = run.cores[0].library.dump
    ahead = dump.hlo.prefetches()
    found: dict[str, OpTime] = {}
    for number, stats in enumerate(run.cores[0].activity.sites):
        owner = stats.site.owner
        if not owner or not stats.count:
            continue
        size = float(sum(core.activity.sites[number].bytes for core in run.cores))
        size = size or ahead.get(owner, 0.0)
        before = found.get(owner)
        stall = stats.stall + (before.cycles if before else run.prefetched.get(owner, 0.0))
        found[owner] = OpTime(
            name=owner,
            kind="xla",
            calls=stats.count,
            seconds=stall / clock.hz,
            cycles=stall,
            stall_cycles=stall,
            read_bytes=size if stats.reads else 0.0,
            write_bytes=size if stats.writes else 0.0,
            hlo=dump.hlo.short(owner),
        )
    return list(found.values())
