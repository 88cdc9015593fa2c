"""Values of small integer operands, so that trip counts that depend on data come out right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec


class ScalarOperand(msgspec.Struct, frozen=True):
    """One integer operand of a kernel: row-major values of a shape; () for a plain scalar."""

    shape: tuple[int, ...]
    dtype: str
    values: tuple[int, ...]


_BITS = {"int8": 8, "uint8": 8, "bool": 8, "int16": 16, "uint16": 16}

Operands = Mapping[str, Sequence[Mapping[int, ScalarOperand]]]
"""Kernel name (of the `pallas_call`, or of the HLO op) -> for each such call of the program, in
program order, its operands by position. One entry serves all calls of that name."""


def words(operand: ScalarOperand, tiles: Sequence[tuple[int, ...]] = ()) -> tuple[int, ...]:
    """The operand's 32-bit words in the order of its tiled layout, `T(8,128)(4,1)` in HLO text.

    Each tile splits the minor dimensions into tiles and places within them; 8- and 16-bit elements
    that end up adjacent share a word, the first in its low bits.
    """
    bits = _BITS.get(operand.dtype, 32)
    per_word = 32 // bits
    packed: dict[int, int] = {}
    mask = (1 << bits) - 1
    for number, value in enumerate(operand.values):
        place = _place(number, operand.shape, tiles)
        word, slot = divmod(place, per_word)
        packed[word] = packed.get(word, 0) | (value & mask) << (bits * slot)
    return tuple(packed.get(word, 0) for word in range(max(packed, default=0) + 1))


def _place(number: int, shape: tuple[int, ...], tiles: Sequence[tuple[int, ...]]) -> int:
    """Position in memory of the element with that row-major number."""
    sizes = list(shape)
    where: list[int] = []
    for size in reversed(sizes):
        where.insert(0, number % size)
        number //= size
    for tile in tiles:
        lead = len(sizes) - len(tile)
        if lead < 0:
            return _place(number, shape, ())
        outer = [-(-size // edge) for size, edge in zip(sizes[lead:], tile, strict=True)]
        split = [divmod(index, edge) for index, edge in zip(where[lead:], tile, strict=True)]
        where = where[:lead] + [whole for whole, _ in split] + [rest for _, rest in split]
        sizes = sizes[:lead] + outer + list(tile)
    place = 0
    for index, size in zip(where, sizes, strict=True):
        place = place * size + index
    return place


def assign(operands: Operands, kernels: Sequence[str]) -> dict[str, Mapping[int, ScalarOperand]]:
    """The operands of each kernel of a program, given its HLO names in program order.

    A name (or its stem) that is a key takes that key's next entry, or its only one. What is left is
    matched by order: some kernels are named after the function around them.
    """
    taken: dict[str, int] = {}
    found: dict[str, Mapping[int, ScalarOperand]] = {}
    strangers: list[str] = []
    for name in kernels:
        key = next((key for key in (name, stem(name)) if operands.get(key)), None)
        if key is None:
            strangers.append(name)
            continue
        tables = operands[key]
        number = taken.get(key, 0)
        taken[key] = number + 1
        found[name] = tables[min(number, len(tables) - 1)]
    left = [table for key, tables in operands.items() if key not in taken for table in tables]
    found.update(zip(strangers, left, strict=False))
    return found


def stem(name: str) -> str:
    """An HLO name without its numeric suffix: the name of the `pallas_call`."""
    head, _, tail = name.rpartition(".")
    return head if head and tail.isdigit() else name
