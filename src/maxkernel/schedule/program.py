"""Runs a whole compiled program on one core: the top-level program and every op it calls."""

from __future__ import annotations

import re
from collections.abc import Mapping

from maxkernel.schedule.constants import slots_of
from maxkernel.schedule.context import SPACING, Context
from maxkernel.schedule.dma import DmaQueue
from maxkernel.schedule.folder import Dump
from maxkernel.schedule.generation import check_names, check_slots
from maxkernel.schedule.lanes import with_addresses, with_inlined_calls
from maxkernel.schedule.machine import Activity, Given, Machine
from maxkernel.schedule.opcodes import COUNTED
from maxkernel.schedule.operands import Kernel, Known, ScalarOperand, assign, words
from maxkernel.schedule.problem import ScheduleError, reading
from maxkernel.schedule.text import Program, parse_program
from maxkernel.schedule.translate import Executable, translate
from maxkernel.targets import Target

_FUEL = 5_000_000
"""Backward branches that a program may take."""
_WARM = 3
"""Executions of an op after which a call may be taken to last as long as the last one."""
_BUSY = 200_000
"""Backward branches after which repeated calls are no longer executed one by one."""
_OPERAND_BASE = 0xE0000000
"""Addresses of operands whose values are known; below lie the programs' allocations."""
_PARAMETERS = SPACING * 4
"""Address of the first input of the program; the others follow at steps of `SPACING`."""
_TOP_FLAGS = 0x8000
"""Number of the first sync flag of the top-level program; those of the ops lie below."""
_FINAL = re.compile(r"/\* (?:entry|exit) bundle: %")
_CALLED = re.compile(r"%?([\w.\-]+|<[\w\-]+>)")


class OpRun:
    """What one HLO op did on one core, over all its calls. Cycles and bytes."""

    def __init__(self, name: str, executable: Executable | None) -> None:
        self.name = name
        self.executable = executable
        self.calls = 0
        self.cycles = 0.0
        self.stall = 0.0
        self.read_bytes = 0.0
        self.write_bytes = 0.0
        self.counts = [0] * (len(executable.blocks) if executable else 0)
        self.activity = Activity(executable.sites if executable else ())
        self.repeated = 0
        self.busy = 0.0
        """Of HBM's pipe, in the last execution."""
        self.last: tuple[float, float, float, float, list[int]] | None = None

    def units(self) -> list[int]:
        """Instructions issued, as `COUNTED`."""
        weights: dict[tuple[int, ...], int] = {}
        if self.executable is not None:
            bundles = self.executable.program.bundles
            for block, count in zip(self.executable.blocks, self.counts, strict=True):
                for bundle in bundles[block.start : block.end] if count else ():
                    weights[bundle.units] = weights.get(bundle.units, 0) + count
        return weighted(weights)


def weighted(weights: Mapping[tuple[int, ...], int]) -> list[int]:
    """Instructions issued, as `COUNTED`, by bundles of which each kind ran so often."""
    totals = [0] * len(COUNTED)
    for units, count in weights.items():
        for unit, issued in enumerate(units):
            totals[unit] += issued * count
    return totals


class Core:
    """One core running one program, to be used once."""

    def __init__(
        self,
        library: Library,
        queue: DmaQueue,
        core: int,
        paired: bool,
        granule: int,
        known: Known,
    ) -> None:
        """`paired`: the device has two cores, and this is core 0 or 1 of them."""
        self.library = library
        self.machine = Machine(queue, core, paired, granule, _FUEL)
        self.machine.call = self._call
        self.ops: dict[str, OpRun] = {}
        self.cycles = 0.0
        self._operands = assign(known.kernels, library.kernels())
        self._next_operand = _OPERAND_BASE
        for index, parameter in known.parameters.items():
            hlo = library.dump.hlo
            if hlo.is_parameter(index, parameter.shape):
                data = words(parameter, hlo.tiles_of_parameter(index))
                self.machine.memory.place("hbm", _PARAMETERS + index * SPACING, data)

    def run(self) -> None:
        """Executes the top-level program; raises ScheduleError where that cannot be done."""
        top = self.library.top
        self.counts = [0] * len(top.blocks)
        self.activity = self.machine.activity = Activity(top.sites)
        self.cycles = top.run(0.0, self.machine, (), self.counts)

    def _call(self, now: float, index: int, operands: tuple[int, ...]) -> float:
        name = self.library.called(index)
        op = self.ops.get(name)
        if op is None:
            op = self.ops[name] = OpRun(name, self.library.executable(name))
        op.calls += 1
        if op.executable is None:
            return now
        if op.last is not None and op.calls > _WARM and self.machine.fuel < _FUEL - _BUSY:
            return self._repeat(op, now)
        return self._execute(op, op.executable, now, operands)

    def _execute(
        self, op: OpRun, executable: Executable, now: float, operands: tuple[int, ...]
    ) -> float:
        machine = self.machine
        queue = machine.queue
        before = (machine.stall, machine.read_bytes, machine.write_bytes, queue.busy)
        lost, machine.lost = machine.lost, False
        machine.scope, machine.top_level, machine.activity = op.name, False, op.activity
        counts = [0] * len(executable.blocks)
        try:
            end = executable.run(now, machine, self._given(op.name, operands), counts)
        finally:
            machine.scope, machine.top_level, machine.activity = "", True, self.activity
            machine.lost = lost
        after = (machine.stall, machine.read_bytes, machine.write_bytes, queue.busy)
        stall, read, write, busy = (b - a for a, b in zip(before, after, strict=True))
        op.last = (end - now, stall, read, write, counts)
        op.busy = busy
        return self._account(op, now)

    def _repeat(self, op: OpRun, now: float) -> float:
        self.machine.assumptions[f"{op.name}: later calls taken to last as long as the first"] = (
            None
        )
        op.repeated += 1
        self.machine.queue.busy += op.busy
        return self._account(op, now)

    def _account(self, op: OpRun, now: float) -> float:
        assert op.last is not None
        cycles, stall, read, write, counts = op.last
        op.cycles += cycles
        op.stall += stall
        op.read_bytes += read
        op.write_bytes += write
        for index, count in enumerate(counts):
            op.counts[index] += count
        return now + cycles

    def _given(self, name: str, operands: tuple[int, ...]) -> tuple[int, ...]:
        """The operands of a call, with known tables put where the kernel will read them."""
        known = self._operands.get(name, {})
        self._note_unknown(name, known, operands)
        given = list(operands)
        for index, operand in known.items():
            if index < len(given):
                given[index] = self._placed(name, index, operand, given[index])
        return tuple(given)

    def _placed(self, name: str, index: int, operand: ScalarOperand, address: int) -> int:
        """Puts an operand where its kernel reads it; the value to pass for it."""
        space = self.library.space_of(name, index)
        data = words(operand, self.library.dump.hlo.tiles_of_operand(name, index))
        if space.endswith("space>"):
            return data[0]
        if space == "smem":
            for offset, word in enumerate(data):
                self.machine.smem[address + offset] = word
            return address
        self._next_operand += SPACING
        self.machine.memory.place(space, self._next_operand, data)
        return self._next_operand

    def _note_unknown(
        self, name: str, known: Mapping[int, ScalarOperand], operands: tuple[int, ...]
    ) -> None:
        executable = self.library.executable(name)
        if executable is None or not self.library.dump.hlo.is_kernel(name):
            return
        for index in executable.scalars:
            given = operands[index] if index < len(operands) else 0
            found = isinstance(given, Given) or self._in_smem(name, index, given)
            if index not in known and not found:
                self.machine.assume(f"operand {index} is unknown")

    def _in_smem(self, name: str, index: int, address: int) -> bool:
        """True where the program itself put an operand into scalar memory."""
        return self.library.space_of(name, index) == "smem" and address in self.machine.smem


class Library:
    """The translated programs of a dump, each parsed and translated at most once."""

    def __init__(self, dump: Dump, target: Target) -> None:
        self.dump = dump
        self.unknown: dict[str, int] = {}
        self._target = target
        self._base = SPACING * 64
        self._made: dict[str, Executable] = {}
        text = with_inlined_calls(with_addresses(dump.top.read_text()))
        if "= inlined_call_operand." in text:
            raise ScheduleError(
                "foreign", f"{dump.top.name}: the program of an op, not a whole one"
            )
        program = self._read(dump.top.name, text)
        check_slots(dump.top.name, program.bundles, target)
        self.top = self._translate(program, top=True)
        self._names = [_call_name(note) for note in self.top.calls]

    @property
    def uses_cores(self) -> bool:
        """True where the program of an op asks which core it runs on."""
        return any(made.reads_core for made in self._made.values())

    def called(self, index: int) -> str:
        """The HLO name behind the call number `index` of the top-level program."""
        return self._names[index]

    def kernels(self) -> list[Kernel]:
        """The Pallas kernels, in the order of the top-level program, each once."""
        hlo = self.dump.hlo
        names = [name for name in dict.fromkeys(self._names) if hlo.is_kernel(name)]
        return [(name, hlo.signature(name)) for name in names]

    def executable(self, name: str) -> Executable | None:
        """The program of an HLO op; None for ops without one (allocations, trace glue)."""
        path = None if name.startswith("<") else self.dump.schedule_of(name)
        if path is None:
            if not name.startswith("<") and not _empty_op(name, self.dump.hlo.lines):
                raise ScheduleError("missing", f"{self.dump.top.parent}: no schedule for %{name}")
            return None
        key = path.name
        if key not in self._made:
            program = self._read(name, path.read_text(errors="replace"))
            self._made[key] = self._translate(program, top=False)
        return self._made[key]

    def space_of(self, name: str, index: int) -> str:
        """Memory space of a kernel's operand: `hbm`, `vmem`, `smem` ..."""
        executable = self.executable(name)
        if executable is not None:
            for bundle in executable.program.bundles[:4]:
                for item in bundle.instructions:
                    if item.op.startswith("inlined_call_operand.") and item.operands == (index,):
                        return item.op.split(".", 1)[1]
        return ""

    def _read(self, name: str, text: str) -> Program:
        """The program; raises ScheduleError, for final bundles too: their text hides delays."""
        if _FINAL.search(text):
            raise ScheduleError("foreign", f"{name}: final bundles, not packed-bundles-post-ra")
        program = parse_program(text, name)
        check_names(name, program.names, self._target)
        return program

    def _translate(self, program: Program, top: bool) -> Executable:
        flags = _TOP_FLAGS if top else 0
        transpose = slots_of(self._target.name).transpose_cycles
        context = Context(self._base, flags, int(top), _PARAMETERS, top, transpose)
        with reading(program.name):
            made = translate(program, context, self._target.delay_slots)
        if made.calls and not top:
            raise ScheduleError("foreign", f"{program.name}: a whole program, not that of an op")
        self._base += SPACING * max(1, made.allocations)
        for found in (program.unknown, made.unknown):
            for op, count in found.items():
                self.unknown[op] = self.unknown.get(op, 0) + count
        return made


def _call_name(note: str) -> str:
    found = _CALLED.match(note.strip())
    return found[1] if found else note.strip()[:80]


def _empty_op(name: str, lines: Mapping[str, str]) -> bool:
    line = lines.get(name, "")
    return not lines or "AllocateBuffer" in line or "Prepare" in line or " bitcast(" in line
