"""Writes the Python source of single instructions for `translate`."""

from __future__ import annotations

import re
from collections import Counter

from maxkernel.schedule.blocks import Block
from maxkernel.schedule.context import FLAG_SPACING, SPACING, Context, flag_allocations
from maxkernel.schedule.copies import Copies, DmaSite
from maxkernel.schedule.lanes import address_of
from maxkernel.schedule.liveness import Liveness, is_root, spill_slot, untimed
from maxkernel.schedule.problem import ScheduleError
from maxkernel.schedule.rings import Rings
from maxkernel.schedule.scalar import IGNORED, expression
from maxkernel.schedule.text import MASK, Instruction, Operand, Program, Register, Symbol

_NAME = re.compile(r"[a-z]*\d+\Z")
_SELECT = ("predicate", "on_true", "on_false")
_REMOTE = ("vsyncadd.remote", "vsyncset.remote")
_SPECIAL = (
    "sld",
    "scalar_parameter_address",
    "spop",
    "vpop.sfrf",
    "sdivrem.u32",
    "scalar_select",
    "vsyncmov",
)


class Emitter:
    """Source lines for the live instructions of one program."""

    def __init__(self, program: Program, facts: Liveness, context: Context) -> None:
        self.name = program.name
        self.reads_core = False
        self.scalars: list[int] = []
        self.names: set[str] = set()
        self.calls: list[str] = []
        self.sites: list[DmaSite] = []
        self.unknown: Counter[str] = Counter()
        self._program = program
        self._facts = facts
        self._context = context
        self._allocations: dict[str, int] = {}
        self._flags = flag_allocations(program)
        self._phis: dict[int, list[Instruction]] = {}
        self._webs: dict[str, list[str]] = {}
        self._definitions: dict[str, Instruction] = {}
        self._copies = Copies(self._definitions)
        self._rings = Rings(program)
        for index, bundle in enumerate(program.bundles):
            for item in bundle.instructions:
                self._definitions.setdefault(item.result, item)
                if item.op == "sphi" and item.result in facts.needed:
                    self._phis.setdefault(index, []).append(item)
                    self._join(item)
                if item.op == "shalt.err":
                    self._copies.note_check(item.note)

    def _join(self, phi: Instruction) -> None:
        """Puts a phi and its operands into one web: the values of one register over time."""
        names = [phi.result, *(item.name for item in phi.operands if isinstance(item, Register))]
        web = list(dict.fromkeys(name for old in names for name in self._webs.get(old, [old])))
        self._webs.update((name, web) for name in web)

    def _web(self, name: str) -> str:
        """The variable that holds what was last written to the web of a value; empty without."""
        web = self._webs.get(name)
        return f"w_{self._variable(web[0])}" if web else ""

    @property
    def allocations(self) -> int:
        """How many allocations the emitted source addresses."""
        return len(self._allocations)

    def condition(self, block: Block) -> str:
        """The guard of a block's branch; a loop that depends on vector data ends at once."""
        assert block.guard is not None
        value = self._value(block.guard)
        if block.guard.name in self._facts.tainted and block.backward:
            return f"{value} and not m.lost" if self._looked_up(block.guard) else "0"
        return value

    def _looked_up(self, operand: Operand) -> bool:
        """True for a value out of vector memory whose address is known."""
        return isinstance(operand, Register) and operand.name in self._facts.looked_up

    def bundle(self, at: int, offset: int) -> list[str]:
        """Lines for the needed instructions of bundle `at`, `offset` cycles into its block."""
        lines = self._merge(at)
        facts = self._facts
        for item in self._program.bundles[at].instructions:
            if is_root(item):
                if not facts.spills or spill_slot(item) not in facts.spills:
                    lines += self._guarded(item, self._effect(item, at, offset))
            elif item.result in facts.needed and item.op not in IGNORED:
                lines += self._assignment(item, offset)
            elif item.op.startswith("inlined_call_operand"):
                if item.result in facts.live:
                    self._operand(item)
            elif not _known(item):
                if item.result in facts.live or item.op == "call":
                    raise self._unknown_feed(item)
                self.unknown[item.op] += 1
        return lines

    def _merge(self, at: int) -> list[str]:
        """Phis share a register with their operands: they take what was written to it last."""
        phis = self._phis.get(at)
        if not phis:
            return []
        left = ", ".join(self._variable(phi.result) for phi in phis)
        return [f"{left} = {', '.join(self._web(phi.result) for phi in phis)}"]

    def _guarded(self, item: Instruction, lines: list[str]) -> list[str]:
        if item.guard is None or not lines:
            return lines
        return [f"if {self._value(item.guard)}:", *(f"    {line}" for line in lines)]

    def _assignment(self, item: Instruction, offset: int) -> list[str]:
        value = self._compute(item, offset)
        if value is None:
            raise self._unknown_feed(item)
        variable = self._variable(item.result)
        web = self._web(item.result)
        if web:
            variable = f"{variable} = {web}"
        if item.guard is None:
            return [f"{variable} = {value}"]
        if item.otherwise is not None:
            other = self._value(item.otherwise)
            return [f"{variable} = {value} if {self._value(item.guard)} else {other}"]
        return [f"if {self._value(item.guard)}: {variable} = {value}"]

    def _unknown_feed(self, item: Instruction) -> ScheduleError:
        return ScheduleError(
            "unknown_control",
            f"{self.name}: {item.op!r} feeds control flow or a copy, and is not known",
        )

    def _compute(self, item: Instruction, offset: int) -> str | None:
        op = item.op
        if op == "sld":
            return self._load(item)
        if op.startswith("inlined_call_operand"):
            return self._operand(item)
        if op == "scalar_parameter_address":
            assert isinstance(item.operands[0], int)
            return str((self._context.parameters + item.operands[0] * SPACING) & MASK)
        if op in ("spop", "vpop.sfrf"):
            return self._pop(item)
        if op == "sdivrem.u32":
            a, b = (self._value(operand) for operand in item.operands)
            symbol = "%" if self._rings.is_remainder(item) else "//"
            return f"({a} {symbol} {b} if {b} else 0)"
        if op == "scalar_select":
            p, yes, no = (self._value(item.named[key]) for key in _SELECT)
            return f"({yes} if {p} else {no})"
        if op == "vsyncmov":
            return f"m.level(t + {offset}, {self._value(item.operands[0])})"
        return expression(op, [self._value(operand) for operand in item.operands])

    def _operand(self, item: Instruction) -> str:
        index = item.operands[0]
        assert isinstance(index, int)
        if item.op.endswith((".smem", "space>")):
            self.scalars.append(index)
        return f"a[{index}] if len(a) > {index} else 0"

    def _load(self, item: Instruction) -> str:
        if "core id" in item.note:
            self.reads_core = True
            return "core"
        if "chip id" in item.note:
            return "0"
        return f"load({self._value(item.operands[0])}, {self._context.default_word})"

    def _pop(self, item: Instruction) -> str:
        source = item.operands[0] if item.operands else None
        if isinstance(source, Register):
            pushed = self._definitions.get(source.name)
            if pushed is not None and pushed.op == "vsyncmov":
                return self._variable(source.name)
            address = address_of(pushed)
            if address is not None:
                return f"m.lane({self._value(address)})"
        return "0"

    def _effect(self, item: Instruction, at: int, offset: int) -> list[str]:
        op = item.op
        if op == "sbr.rel":
            tainted = item.guard is not None and item.guard.name in self._facts.tainted
            if item.guard is None or not tainted:
                return []
            return [f"{'if m.lost: ' if self._looked_up(item.guard) else ''}m.guess({at})"]
        if op == "sst":
            address, value = (self._value(operand) for operand in item.operands[:2])
            return [f"smem[{address}] = {value}"]
        if op == "inlined_call":
            return self._call(item, offset)
        if op == "vdelay":
            return [f"t += {self._value(item.operands[0])}"]
        if op in ("dma.done.wait", "vwait.ge", "vwait.ge.trace"):
            flag, need = (self._value(operand) for operand in item.operands[:2])
            return [f"t += wait(t + {offset}, {flag}, {need}, {at})"]
        if op.startswith("dma."):
            return self._copy(item, at, offset)
        return self._synchronise(item, offset)

    def _synchronise(self, item: Instruction, offset: int) -> list[str]:
        op = item.op
        if "remote" in op:
            return [f"m.remote({op!r})"] if op in _REMOTE else self._refuse(item)
        if op == "vsyncadd":
            flag, amount = (self._value(operand) for operand in item.operands[:2])
            return [f"add({flag}, {amount})"]
        if op in ("vsyncpa", "vsyncset"):
            flag, value = (self._value(operand) for operand in item.operands[:2])
            return [f"m.set({flag}, {value})"]
        if op == "vsyncmov":
            variable = self._variable(item.result)
            return [f"{variable} = m.level(t + {offset}, {self._value(item.operands[0])})"]
        return self._refuse(item)

    def _refuse(self, item: Instruction) -> list[str]:
        kind = "collective" if "remote" in item.op or "ici" in item.op else "unknown_control"
        raise ScheduleError(kind, f"{self.name}: the instruction {item.op!r} is not known")

    def _call(self, item: Instruction, offset: int) -> list[str]:
        operands = "".join(f"{self._value(operand)}, " for operand in item.operands)
        self.calls.append(item.note)
        index = len(self.calls) - 1
        return [f"t = call(t + {offset}, {index}, ({operands})) - {offset}"]

    def _copy(self, item: Instruction, at: int, offset: int) -> list[str]:
        found = self._copies.site(item, at)
        size = item.named.get("size_in_granules")
        flag = item.named.get("dst_syncflagno")
        if found is None or size is None or flag is None:
            return self._refuse(item)
        site, ends = found
        self.sites.append(site)
        nowhere = () if self._context.follows_copies else untimed(item)
        named = {key: value for key, value in item.named.items() if key not in nowhere}
        addresses = [self._value(named[key]) if key in named else "0" for key in ends]
        return [
            f"dma(t + {offset}, {len(self.sites) - 1}, {', '.join(addresses)}, "
            f"{self._value(size)}, {self._value(flag)}, "
            f"{self._copies.piece(item, self._value)})"
        ]

    def _variable(self, name: str) -> str:
        if not _NAME.match(name):
            raise ScheduleError("foreign", f"{self.name}: odd value name {name!r}")
        variable = name if name[0].isalpha() else f"x{name}"
        self.names.add(variable)
        return variable

    def _value(self, operand: Operand) -> str:
        if isinstance(operand, int):
            return str(operand)
        if isinstance(operand, Register):
            variable = self._variable(operand.name)
            return f"({variable} ^ 1)" if operand.negated else variable
        if isinstance(operand, Symbol):
            return str((self._address(operand.allocation) + operand.offset) & MASK)
        terms = " + ".join(self._value(term) for term in operand.terms)
        return f"({terms}) & {MASK}" if len(operand.terms) > 1 else terms

    def _address(self, allocation: str) -> int:
        if allocation in self._flags:
            return self._context.flags + self._flags[allocation] * FLAG_SPACING
        index = self._allocations.setdefault(allocation, len(self._allocations))
        return self._context.base + index * SPACING


def _known(item: Instruction) -> bool:
    if item.op in IGNORED or item.op in _SPECIAL or item.op.startswith("inlined_call_operand"):
        return True
    return expression(item.op, ["0"] * len(item.operands)) is not None
