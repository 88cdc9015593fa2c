"""A profile as text: at most `LINES` lines that a kernel writer can act on."""

from __future__ import annotations

import textwrap

from maxkernel.schedule.expectation import expected_error
from maxkernel.schedule.explain import bottleneck, outside_ops, what_it_does
from maxkernel.schedule.units import op_use, registers_of, spill_share, unit_use
from maxkernel.schedule.vmem import SPILLS
from maxkernel.schedule.words import percent, size_words, time_words
from maxkernel.types import CopyTime, LineTime, OpTime, ProgramTime, RegionTime

LINES = 60
WIDTH = 120
_OPS = 6
_OUTSIDE = 4
_KERNELS = 2
_REGIONS = 9
_COPIES = 5
_SOURCE = 5
_LEAST = 0.001
"""Share of the time below which an op outside the kernels is not told on its own."""
_SMALL = 2**16
"""Bytes below which it does not matter how often an array is read; tiles are padded."""


def digest(
    program: ProgramTime, bound: float = 0.0, source: str = "", needed: float = 0.0
) -> list[str]:
    """Totals, the bottleneck, ops, and regions, copies and source lines of the slowest kernels.

    `bound` is the task's roofline in seconds, `needed` the bytes that it has to move; `source` the
    kernel's text, of which hot lines are shown.
    """
    error = 100 * expected_error(program)
    lines = [
        f"{program.target}: {time_words(program.seconds)} simulated, expected error {error:.0f} % "
        f"({program.cycles:.0f} cycles at {program.clock_hz / 1e9:.2f} GHz)"
        + (f"; roofline {time_words(bound)}, {percent(bound / program.seconds)} of it" if bound
           else "")
    ]  # fmt: skip
    clock = program.calibration.note if program.calibration else ""
    lines += _wrapped(f"clock: {clock}") if clock else []
    ops = [op for op in sorted(program.ops, key=lambda op: -op.cycles) if op.cycles > 0]
    if not ops:
        return lines
    found = bottleneck(program, bound, needed)
    times = f" ({1 / (1 - found.gain):.2f}x)" if 0.005 < found.gain < 1 else ""
    lines += _wrapped(
        f"bottleneck: {found.sentence} Removing this limit saves at most {100 * found.gain:.0f} % "
        f"of the program{times}."
    )
    lines.append("ops (time, share, waiting, HBM traffic / least possible):")
    lines += [_op_line(op, program) for op in ops[:_OPS]]
    if len(ops) > _OPS:
        rest = sum(op.cycles for op in ops[_OPS:])
        lines.append(f"  {len(ops) - _OPS} more ops: {percent(rest / program.cycles)} of the time")
    lines += _outside(program)
    for op in [op for op in ops if op.kind == "kernel"][:_KERNELS]:
        lines += _kernel(op, program, source.splitlines())
    assumed = [note for note in program.assumptions if note != clock]
    notes = [f"assumed: {note}" for note in assumed[:4]]
    if program.unknown:
        names = ", ".join(f"{name} x{count}" for name, count in list(program.unknown.items())[:6])
        notes.append(f"instructions of unknown unit: {names}")
    kept = lines[: LINES - len(notes)] + notes
    return [line if len(line) <= WIDTH else line[: WIDTH - 3] + "..." for line in kept]


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ")


def _op_line(op: OpTime, program: ProgramTime) -> str:
    moved = op.read_bytes + op.write_bytes
    traffic = f"{size_words(moved)} / {size_words(op.needed_bytes)}" if op.needed_bytes else (
        size_words(moved))  # fmt: skip
    calls = f" x{op.calls}" if op.calls > 1 else ""
    return (
        f"  {time_words(op.seconds):>9s} {100 * op.cycles / program.cycles:4.0f} % "
        f"waits {100 * op.stall_cycles / op.cycles:3.0f} %  {traffic}  "
        f"{op.kind} {op.name[:48]}{calls}"
    )


def _outside(program: ProgramTime) -> list[str]:
    """What XLA does beside the kernels: layout changes, padding, arithmetic."""
    ops = outside_ops(program)
    if not ops:
        return []
    share = sum(op.cycles for op in ops) / program.cycles
    count = f"{len(ops)} XLA op" + ("s" if len(ops) > 1 else "")
    lines = [f"outside the kernels: {count}, {percent(share)} of the time"]
    for op in [op for op in ops if op.cycles > _LEAST * program.cycles][:_OUTSIDE]:
        moved = size_words(op.read_bytes + op.write_bytes)
        part = percent(op.cycles / program.cycles)
        lines.append(f"  {part:>6s} {what_it_does(op)}, moves {moved}: {op.hlo or op.name}")
    return lines


def _kernel(op: OpTime, program: ProgramTime, source: list[str]) -> list[str]:
    lines = _wrapped(f"kernel {op.name[:60]}: {_facts(op, program)}")
    use = " ".join(
        f"{name} {100 * value:.0f}" for name, value in op_use(op, program.target).items()
    )
    lines.append(f"  units, % of their slots in cycles that do not wait: {use or 'none'}")
    lines.append(
        "  regions (cycles, share; executions; % of cycles waiting for copies / issuing nothing):"
    )
    kept = sorted(op.regions, key=lambda region: -region.cycles)[:_REGIONS]
    lines += [_region_line(region, op, program) for region in op.regions if region in kept]
    rest = [region for region in op.regions if region not in kept]
    if rest:
        cycles = sum(region.cycles for region in rest)
        lines.append(f"  {cycles:11.0f} {100 * cycles / op.cycles:3.0f} % {len(rest)} more regions")
    copies = sorted(op.copies, key=lambda copy: -copy.stall_cycles)[:_COPIES]
    lines += [_copy_line(copy, op) for copy in copies]
    return lines + _source(op, source)


def _facts(op: OpTime, program: ProgramTime) -> str:
    parts = [f"{op.bundles} bundles"]
    vmem = sum(buffer.bytes for buffer in op.buffers)
    if vmem:
        whole = f" of {size_words(program.vmem_bytes)}" if program.vmem_bytes else ""
        parts.append(f"VMEM {size_words(vmem)}{whole}")
    live = max((region.live_registers for region in op.regions), default=0)
    if live:
        parts.append(f"at most {live} of {registers_of(program.target)} vector registers live")
    spills = spill_share(op.units)
    room = sum(buffer.bytes for buffer in op.buffers if buffer.name == SPILLS)
    size = f" ({size_words(room)})" if room else ""
    parts.append(
        f"{percent(spills)} of loads and stores are spills{size}" if spills else "no spills"
    )
    return ", ".join(parts)


def _region_line(region: RegionTime, op: OpTime, program: ProgramTime) -> str:
    working = region.cycles - region.stall_cycles
    use = unit_use(region.units, working, program.target)
    busy = " ".join(f"{name} {100 * value:.0f}" for name, value in use.items() if value >= 0.05)
    waits = ", ".join(f"{' '.join(name.split()[:2])} {percent(value / op.cycles)}"
                      for name, value in sorted(region.waits.items(), key=lambda item: -item[1])[:2]
                      if value > 0.005 * op.cycles)  # fmt: skip
    stall = 100 * region.stall_cycles / max(1.0, region.cycles)
    idle = 100 * region.idle_cycles / max(1.0, region.cycles)
    return (
        f"  {region.cycles:11.0f} {100 * region.cycles / op.cycles:3.0f} % x{region.executions:<6d}"
        f" {stall:3.0f}/{idle:<3.0f} {region.name}{_where(region, op)}"
        + (f"; waits for {waits}" if waits else "")
        + (f"  [{busy}]" if busy else "")
    )


def _where(region: RegionTime, op: OpTime) -> str:
    """The source lines of a region that works, or of the waits that the kernel itself writes."""
    first, last = region.lines
    if region.kind in ("control", "wait"):
        stalls = [
            line.line for line in op.lines if line.stall_cycles and first <= line.line <= last
        ]
        first, last = min(stalls, default=0), max(stalls, default=0)
    if not first:
        return ""
    return f", {region.file}:{first}" + (f"-{last}" if last > first else "")


def _copy_line(copy: CopyTime, op: OpTime) -> str:
    each = copy.bytes / max(1, copy.count)
    again = copy.bytes / copy.whole_bytes if copy.whole_bytes else 0.0
    times = f", {again:.1f} times the array" if again > 1.05 and copy.bytes > _SMALL else ""
    return (
        f"  copy {copy.source} to {copy.destination}, {copy.name}: {copy.count} x "
        f"{size_words(each)} in pieces of {size_words(copy.bytes / max(1, copy.pieces))}{times}, "
        f"waited for {percent(copy.stall_cycles / op.cycles)}"
    )


def _source(op: OpTime, source: list[str]) -> list[str]:
    if not op.lines:
        return ["  source lines: the compiler named none for this kernel"]
    hottest = sorted(op.lines, key=lambda line: -line.cycles)[:_SOURCE]
    return ["  source lines by cycles:"] + [_source_line(line, op, source) for line in hottest]


def _source_line(line: LineTime, op: OpTime, source: list[str]) -> str:
    busiest = sorted(line.units, key=lambda unit: -line.units[unit])[:3]
    text = source[line.line - 1].strip() if 0 < line.line <= len(source) else ""
    return (
        f"  {percent(line.cycles / op.cycles):>6s} {line.file}:{line.line} "
        f"({', '.join(busiest)})  {text}"
    )
