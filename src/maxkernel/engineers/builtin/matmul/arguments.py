"""The arrays that a matrix-product kernel is called with."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from maxkernel.engineers.builtin.matmul.match import MatmulProgram
from maxkernel.engineers.builtin.operands import Operand
from maxkernel.engineers.builtin.text import Names

Where = Literal["lhs", "rhs", "tile", "wide"]
"""Whose space an array lies in: a side's, one block of the result, or whole rows of it."""


@dataclass(frozen=True)
class Argument:
    """One array of the call: an input in one of its uses."""

    operand: Operand
    where: Where
    array: str
    ref: str


def arguments(
    matmul: MatmulProgram,
    arrays: tuple[str, ...],
    tile: Collection[int],
    wide: Collection[int] = (),
) -> tuple[Argument, ...]:
    """Left side, right side, then the epilogue's inputs that `tile` and `wide` terms read."""
    names = Names()
    spaces: tuple[tuple[Where, list[Operand]], ...] = (
        ("lhs", list(matmul.lhs.operands)),
        ("rhs", list(matmul.rhs.operands)),
        ("tile", [o for o in matmul.operands if o.term in tile]),
        ("wide", [o for o in matmul.operands if o.term in wide]),
    )
    found: list[Argument] = []
    for where, operands in spaces:
        for operand in operands:
            array = arrays[operand.use.index]
            found.append(Argument(operand, where, array, names.new(f"{array}_ref")))
    return tuple(found)
