"""What a bundle issues, by the names of its instructions: few combinations make a program."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from maxkernel.schedule.opcodes import COUNTED, PHIS, is_matmul, is_vector, unit_of

NO_UNITS = (0,) * len(COUNTED)
_UNIT_INDEX = {unit: index for index, unit in enumerate(COUNTED)}
_MATMUL, _SPILL = _UNIT_INDEX["matmul"], _UNIT_INDEX["spill"]


class Kind(msgspec.Struct, frozen=True, gc=False):
    """What the names of a bundle's instructions say."""

    names: tuple[str, ...]
    units: tuple[int, ...]
    """As `COUNTED`, without spills."""
    issued: tuple[int, ...]
    """Number of each instruction's unit, or -1."""
    scalars: tuple[int, ...]
    """The instructions that are parsed, by position."""
    vectors: tuple[int, ...]
    unknown: tuple[str, ...]


@lru_cache(maxsize=1 << 15)
def kind_of(ops: tuple[str, ...]) -> Kind:
    """The kind of a bundle that issues instructions of these names."""
    counts = [0] * len(COUNTED)
    issued: list[int] = []
    for op in ops:
        unit = unit_of(op)
        issued.append(-1 if unit is None else _UNIT_INDEX[unit])
        if unit is not None:
            counts[_UNIT_INDEX[unit]] += 1
        if is_matmul(op):
            counts[_MATMUL] += 1
    vectors = tuple(at for at, op in enumerate(ops) if is_vector(op))
    return Kind(
        ops,
        tuple(counts),
        tuple(issued),
        tuple(at for at in range(len(ops)) if at not in vectors),
        vectors,
        tuple(op for op, unit in zip(ops, issued, strict=True) if unit < 0 and op not in PHIS),
    )


@lru_cache(maxsize=1 << 12)
def with_spills(units: tuple[int, ...], spills: int) -> tuple[int, ...]:
    """Counted instructions, with so many register spills among them."""
    return (*units[:_SPILL], units[_SPILL] + spills, *units[_SPILL + 1 :])
