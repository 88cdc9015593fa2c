"""DMA instructions: which memories they join, in what runs, and what they copy."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec

from maxkernel.schedule.text import Instruction, Memory, Operand, Register, Symbol

STEP = 512
"""Bytes of a step, the unit of the runs that a DMA consists of."""
_SPACES = ("hbm", "vmem", "smem", "cmem")
_CHAIN = 64


class DmaSite(msgspec.Struct, frozen=True):
    """A DMA instruction: where from, where to, and its place in the text."""

    result: str
    bundle: int
    source: str
    destination: str
    label: str = ""
    """The operand of the kernel that it reads or writes."""
    owner: str = ""
    """Name of the HLO op that a DMA of the top-level program belongs to."""
    whole: str = ""
    """Shape of that whole operand, where `label` names its block."""

    @property
    def reads(self) -> bool:
        return self.source == "hbm"

    @property
    def writes(self) -> bool:
        return self.destination == "hbm"

    @property
    def name(self) -> str:
        return self.label or f"{self.source} to {self.destination}"


class Copies:
    """Reads the DMA instructions of one program, given what defines each value."""

    def __init__(self, definitions: Mapping[str, Instruction]) -> None:
        self._definitions = definitions
        self._owners: dict[str, str] = {}
        self._spilled: dict[str, Operand] | None = None

    def note_check(self, note: str) -> None:
        """Learns from the comment of a bounds check which HLO op its DMA belongs to."""
        copy = re.search(r"for %(\d+) = dma", note)
        owner = re.search(r"hlo: ([\w.\-]+)", note)
        if copy and owner:
            self._owners[copy[1]] = owner[1]

    def site(self, item: Instruction, bundle: int) -> tuple[DmaSite, tuple[str, str]] | None:
        """The site of a DMA and the names of its two address operands; None if not understood."""
        if item.op == "dma.general":
            ends = ("src", "dst")
            spaces = (self._space(item.named.get("src")), self._space(item.named.get("dst")))
        else:
            found = re.fullmatch(r"dma\.([a-z]+)_to_([a-z]+)", item.op)
            if found is None:
                return None
            ends = spaces = (found[1], found[2])
        outside = ends[0] if spaces[0] == "hbm" else ends[1]
        owner = self._owners.get(item.result, "")
        label, whole = self._label(item.named.get(outside))
        return DmaSite(item.result, bundle, *spaces, label, owner, whole), ends

    def piece(self, item: Instruction, value: Callable[[Operand], str]) -> str:
        """Source of the bytes that the DMA engine moves at a time; 0 where it is one run.

        A run is charged as the descriptor has it, even where the next one is adjacent: published
        times fit that better.
        """
        if item.op == "dma.general":
            described = item.named.get("stridedescaddr")
            return "0" if described is None else f"m.described_piece({value(described)})"
        steps = item.named.get("steps_per_stride")
        return "0" if steps is None else f"{value(steps)} * {STEP}"

    def _space(self, operand: Operand | None) -> str:
        """The memory that an address points into, from the instruction that makes it."""
        for item in self._makers(operand):
            suffix = item.op.rsplit(".", 1)[-1]
            if suffix in _SPACES:
                return suffix
        return "vmem"

    def _label(self, operand: Operand | None) -> tuple[str, str]:
        """`input 0 bf16[256,8192]` for an address in an operand of the kernel; its whole shape."""
        for item in self._makers(operand):
            if item.op.startswith("inlined_call_operand"):
                kind = re.search(r"kind: (\w+)", item.note)
                shape = re.search(r"window shape is (\w+\[[\d,]*\])", item.note) or re.search(
                    r"shape: (\w+\[[\d,]*\])", item.note
                )
                whole = re.search(r"full shape is (\w+\[[\d,]*\])", item.note) or shape
                name = f"{kind[1] if kind else 'operand'} {self._position(item)} "
                return name + (shape[1] if shape else ""), whole[1] if whole else ""
        return "", ""

    def _position(self, item: Instruction) -> int:
        """Number of an operand of the kernel among its inputs, or among its outputs."""
        number = item.operands[0]
        assert isinstance(number, int)
        if "kind: output" not in item.note:
            return number
        outputs = [
            other.operands[0]
            for other in self._definitions.values()
            if other.op.startswith("inlined_call_operand") and "kind: output" in other.note
        ]
        return number - min(first for first in outputs if isinstance(first, int))

    def _makers(self, operand: Operand | None) -> list[Instruction]:
        """The instructions from which an address is made, last one first."""
        found: list[Instruction] = []
        while isinstance(operand, Register) and len(found) < _CHAIN:
            item = self._definitions.get(operand.name)
            if item is None or item in found:
                break
            found.append(item)
            operand = self._before(item)
        return found

    def _before(self, item: Instruction) -> Operand | None:
        """The value that an instruction passes on: its first operand, or what was spilled."""
        first = next(iter([*item.operands, *item.named.values()]), None)
        slot = _spill_slot(first) if item.op == "sld" else ""
        return self._spills().get(slot) if slot else first

    def _spills(self) -> dict[str, Operand]:
        """What the program stores to each spill slot."""
        if self._spilled is None:
            stores = [item for item in self._definitions.values()
                      if item.op == "sst" and len(item.operands) > 1]  # fmt: skip
            self._spilled = {
                slot: item.operands[1] for item in stores if (slot := _spill_slot(item.operands[0]))
            }
        return self._spilled


def _spill_slot(operand: Operand | None) -> str:
    if isinstance(operand, Memory) and len(operand.terms) == 1:
        term = operand.terms[0]
        if isinstance(term, Symbol) and term.allocation.endswith("_spill"):
            return term.allocation
    return ""
