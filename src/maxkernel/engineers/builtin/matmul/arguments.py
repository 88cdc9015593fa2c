"""The arrays that a matrix-product kernel is called with."""

from __future__ import annotations

from dataclasses import dataclass

from maxkernel.engineers.builtin.matmul.match import MatmulProgram, Operand
from maxkernel.engineers.builtin.text import Names


@dataclass(frozen=True)
class Argument:
    """One array that the kernel is called with: an input in one of its uses."""

    operand: Operand
    where: str
    """`lhs`, `rhs` or `out`: whose space it lies in."""
    array: str
    ref: str


def arguments(matmul: MatmulProgram, arrays: tuple[str, ...]) -> tuple[Argument, ...]:
    """The kernel's arrays in call order: left side, right side, epilogue."""
    names = Names()
    found: list[Argument] = []
    spaces = (
        ("lhs", matmul.lhs.operands),
        ("rhs", matmul.rhs.operands),
        ("out", matmul.operands),
    )
    for where, operands in spaces:
        for operand in operands:
            array = arrays[operand.use.index]
            found.append(Argument(operand, where, array, names.new(f"{array}_ref")))
    return tuple(found)
