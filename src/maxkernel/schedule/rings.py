"""Which divisions of a program are asked for their remainder.

Newer compilers mark them (`kRem`); those of jax 0.9.2 and before print no mark at all. There, a
division whose result picks a sync flag is the step of a pipeline counted around its ring of
buffers, and others by the same number count around the same ring. Everything else is a quotient.
"""

from __future__ import annotations

from maxkernel.schedule.text import Instruction, Operand, Program, Register


class Rings:
    """The divisions of one program that count around rings of buffers."""

    def __init__(self, program: Program) -> None:
        items = [item for bundle in program.bundles for item in bundle.instructions]
        divisions = {item.result: item for item in items if item.op == "sdivrem.u32"}
        flags = _registers(items, "scalar_lea.sflag") if divisions else set[str]()
        picking = [item for item in items if item.op == "spop.drf" and item.result in flags]
        self._found = _registers(picking, "spop.drf") & divisions.keys()
        self._lengths: set[Operand] = {divisions[name].operands[1] for name in self._found}

    def is_remainder(self, division: Instruction) -> bool:
        """Whether the remainder of a `sdivrem` is popped, and not its quotient."""
        return "kRem" in division.note or division.operands[1] in self._lengths


def _registers(items: list[Instruction], op: str) -> set[str]:
    """Names of the values that instructions of this name read."""
    return {
        operand.name
        for item in items
        if item.op == op
        for operand in item.operands
        if isinstance(operand, Register)
    }
