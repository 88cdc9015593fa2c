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


_PACKING = {"8": 4, "16": 2}

Operands = Mapping[str, Sequence[Mapping[int, ScalarOperand]]]
"""Kernel name (of the `pallas_call`, or of the HLO op) -> for each such call of the program, in
program order, its operands by position. One entry serves all calls of that name."""


def words(operand: ScalarOperand) -> tuple[int, ...]:
    """The operand's 32-bit words as they lie in scalar memory.

    Rows are padded to tiles of 128 words. 8-bit types pack four rows of a matrix into one word,
    16-bit types two, byte `row % 4` or half `row % 2`.
    """
    pack = _PACKING.get(operand.dtype.lstrip("ui").removeprefix("nt"), 1)
    if not operand.shape:
        return tuple(value & M for value in operand.values)
    columns = operand.shape[-1]
    rows = operand.shape[-2] if len(operand.shape) > 1 else 1
    tiles, row_tiles = -(-columns // 128), -(-rows // pack)
    matrices = len(operand.values) // max(1, rows * columns)
    packed = [0] * (matrices * row_tiles * tiles * 128)
    bits = 32 // pack
    for index, value in enumerate(operand.values):
        row, column = divmod(index, columns)
        matrix, row = divmod(row, rows)
        tile = (matrix * row_tiles + row // pack) * tiles + column // 128
        word = tile * 128 + column % 128
        packed[word] |= (value & ((1 << bits) - 1)) << (bits * (row % pack))
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
