"""Values of small integer operands, so that trip counts that depend on data come out right."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec


class ScalarOperand(msgspec.Struct, frozen=True):
    """One small operand of a kernel: row-major values of a shape; () for a plain scalar.

    Values of dtype float32 are given as the integers of the same bits.
    """

    shape: tuple[int, ...]
    dtype: str
    values: tuple[int, ...]


class KernelOperands(msgspec.Struct, frozen=True):
    """The known operands of one Pallas call, by position."""

    name: str
    """Of the `pallas_call`; the compiler may name its op after the function around it."""
    operands: dict[int, ScalarOperand]
    signature: tuple[str, ...] = ()
    """Type of each operand as HLO writes it, `s32[8,128]`; empty where it is not known."""


class Known(msgspec.Struct, frozen=True):
    """What is known of a program's data: operands of its kernels, in program order, and of its
    inputs, by position. One entry serves all calls of a kernel's name and signature."""

    kernels: tuple[KernelOperands, ...] = ()
    parameters: dict[int, ScalarOperand] = {}


_BITS = {"int8": 8, "uint8": 8, "bool": 8, "int16": 16, "uint16": 16}


def words(operand: ScalarOperand, tiles: Sequence[tuple[int, ...]] = ()) -> tuple[int, ...]:
    """The operand's 32-bit words in the order of its tiled layout, `T(8,128)(4,1)` in HLO text.

    Each tile splits the minor dimensions into tiles and places within them; 8- and 16-bit elements
    that end up adjacent share a word, the first in its low bits.
    """
    bits = _BITS.get(operand.dtype, 32)
    per_word = 32 // bits
    packed: dict[int, int] = {}
    mask = (1 << bits) - 1
    for place, value in zip(_places(operand.shape, tiles), operand.values, strict=True):
        word, slot = divmod(place, per_word)
        packed[word] = packed.get(word, 0) | (value & mask) << (bits * slot)
    return tuple(packed.get(word, 0) for word in range(max(packed, default=0) + 1))


def _places(shape: tuple[int, ...], tiles: Sequence[tuple[int, ...]]) -> list[int]:
    """Positions in memory of the elements, in row-major order.

    A position is a sum with one part for each dimension, because a tile splits each on its own.
    """
    places = [0]
    for dimension, size in enumerate(shape):
        parts = [_place(dimension, index, shape, tiles) for index in range(size)]
        places = [place + part for place in places for part in parts]
    return places


def _place(
    dimension: int, index: int, shape: tuple[int, ...], tiles: Sequence[tuple[int, ...]]
) -> int:
    """Position in memory of the element with that index in one dimension, and 0 in the others."""
    sizes = list(shape)
    where = [index if number == dimension else 0 for number in range(len(shape))]
    for tile in tiles:
        lead = len(sizes) - len(tile)
        if lead < 0:
            return _place(dimension, index, shape, ())
        outer = [-(-size // edge) for size, edge in zip(sizes[lead:], tile, strict=True)]
        split = [divmod(at, edge) for at, edge in zip(where[lead:], tile, strict=True)]
        where = where[:lead] + [whole for whole, _ in split] + [rest for _, rest in split]
        sizes = sizes[:lead] + outer + list(tile)
    place = 0
    for at, size in zip(where, sizes, strict=True):
        place = place * size + at
    return place


Kernel = tuple[str, tuple[str, ...]]
"""Name and signature of a kernel in the compiled program."""


def assign(
    entries: Sequence[KernelOperands], kernels: Sequence[Kernel]
) -> dict[str, Mapping[int, ScalarOperand]]:
    """The operands of each kernel of a program, given its kernels in program order.

    A kernel takes the next entry with its name (or stem) and signature, or the last one used; then
    the next one with its signature; what has no signature is matched by order at last.
    """
    left = list(entries)
    found: dict[str, Mapping[int, ScalarOperand]] = {}
    rules: tuple[Callable[[KernelOperands, Kernel], bool], ...] = (
        _same_name, _same_signature, _any,
    )  # fmt: skip
    for rule in rules:
        last: dict[Kernel, KernelOperands] = {}
        for kernel in kernels:
            if kernel[0] in found:
                continue
            kind = stem(kernel[0]), kernel[1]
            entry = next((entry for entry in left if rule(entry, kernel)), last.get(kind))
            if entry is None:
                continue
            last[kind] = entry
            found[kernel[0]] = entry.operands
            if entry in left:
                left.remove(entry)
    return found


def _same_name(entry: KernelOperands, kernel: Kernel) -> bool:
    named = entry.name in (kernel[0], stem(kernel[0]))
    return named and (not entry.signature or entry.signature == kernel[1])


def _same_signature(entry: KernelOperands, kernel: Kernel) -> bool:
    return bool(entry.signature) and entry.signature == kernel[1]


def _any(entry: KernelOperands, kernel: Kernel) -> bool:
    del kernel
    return not entry.signature


def stem(name: str) -> str:
    """An HLO name without its numeric suffix: the name of the `pallas_call`."""
    head, _, tail = name.rpartition(".")
    return head if head and tail.isdigit() else name
