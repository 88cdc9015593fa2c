"""Values of small integer operands, so that trip counts that depend on data come out right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from maxkernel.schedule.machine import M


class ScalarOperand(msgspec.Struct, frozen=True):
    """One integer operand of a kernel: row-major values of a shape; () for a plain scalar."""

    shape: tuple[int, ...]
    dtype: str
    values: tuple[int, ...]


Operands = Mapping[str, Sequence[Mapping[int, ScalarOperand]]]
"""Kernel name (of the `pallas_call`, or of the HLO op) -> for each such call of the program, in
program order, its operands by position. One entry serves all calls of that name."""


def words(operand: ScalarOperand) -> tuple[int, ...]:
    """The operand's 32-bit words as they lie in scalar memory.

    int32 and uint32 are row-major; 8-bit types pack four rows of a column into one word, in tiles
    of 128 columns.
    """
    if not operand.dtype.endswith("8"):
        return tuple(value & M for value in operand.values)
    columns = operand.shape[-1] if operand.shape else 1
    rows = len(operand.values) // max(1, columns)
    tiles = -(-columns // 128)
    packed = [0] * (-(-rows // 4) * tiles * 128)
    for index, value in enumerate(operand.values):
        row, column = divmod(index, columns)
        word = ((row // 4) * tiles + column // 128) * 128 + column % 128
        packed[word] |= (value & 0xFF) << (8 * (row % 4))
    return tuple(packed)


def table_for(operands: Operands, name: str, earlier: Sequence[str]) -> Mapping[int, ScalarOperand]:
    """The operands of HLO op `name`, after the ops `earlier` of the program; empty if unknown."""
    for key, number in (
        (name, 0),
        (stem(name), sum(stem(other) == stem(name) for other in earlier)),
    ):
        tables = operands.get(key)
        if tables:
            return tables[min(number, len(tables) - 1)]
    return {}


def stem(name: str) -> str:
    """An HLO name without its numeric suffix: the name of the `pallas_call`."""
    head, _, tail = name.rpartition(".")
    return head if head and tail.isdigit() else name
