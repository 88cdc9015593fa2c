"""The program as plain data: what `read` makes of MLIR and what every other module works on."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from maxkernel.worker.mosaic.errors import BadArtifact

DYNAMIC = -(1 << 63)
"""MLIR's marker of a dynamic size or position."""


@dataclass(frozen=True, slots=True)
class Type:
    """A type. `shape` is empty for scalars; `space` is set for memrefs (`vmem`, `smem`, ...)."""

    kind: Literal["scalar", "vector", "memref", "tensor", "other"]
    element: str
    shape: tuple[int, ...] = ()
    space: str = ""

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def __str__(self) -> str:
        dims = "x".join("?" if n == DYNAMIC else str(n) for n in self.shape)
        return self.element if self.kind == "scalar" else f"{self.kind}<{dims}x{self.element}>"


@dataclass(frozen=True, slots=True)
class Raw:
    """An attribute kept as MLIR prints it."""

    text: str


@dataclass(frozen=True, slots=True)
class Block:
    """Straight-line code ending in a terminator. Values are numbers unique in a function."""

    args: tuple[int, ...]
    ops: tuple[Op, ...]


@dataclass(frozen=True, slots=True)
class Op:
    """One operation. `attrs` holds plain Python values, numpy arrays, `Type` or `Raw`."""

    name: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    attrs: dict[str, Any]
    regions: tuple[Block, ...] = ()
    location: str = ""

    def integer(self, name: str) -> int:
        """An integer attribute."""
        value = self.attrs.get(name)
        if not isinstance(value, int):
            raise BadArtifact(f"attribute {name} is not an integer", op=self.name)
        return int(value)

    def integers(self, name: str) -> tuple[int, ...]:
        """An integer array attribute; empty when absent."""
        value = self.attrs.get(name, ())
        if not isinstance(value, tuple):
            raise BadArtifact(f"attribute {name} is not an array of integers", op=self.name)
        return value  # pyright: ignore[reportUnknownVariableType]

    def text(self, name: str) -> str:
        """An attribute as text; empty when absent."""
        value = self.attrs.get(name, "")
        return value.text if isinstance(value, Raw) else str(value)

    def flag(self, name: str) -> bool:
        """A boolean attribute; False when absent."""
        return bool(self.attrs.get(name, False))

    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Operands by segment, for ops with optional or variadic operands."""
        found: list[tuple[int, ...]] = []
        at = 0
        for size in self.integers("operandSegmentSizes"):
            found.append(self.operands[at : at + size])
            at += size
        if at != len(self.operands):
            raise BadArtifact("operand segments do not add up", op=self.name)
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Func:
    """A function: `types[v]` is the type of value `v`; value 0 is unused."""

    name: str
    body: Block
    types: tuple[Type, ...]
    attrs: dict[str, Any] = field(default_factory=dict[str, Any])

    def walk(self) -> Iterator[Op]:
        """Every op, outer before inner."""
        yield from walk(self.body)


def walk(block: Block) -> Iterator[Op]:
    """Every op of a block and of the regions inside, outer before inner."""
    for op in block.ops:
        yield op
        for region in op.regions:
            yield from walk(region)
