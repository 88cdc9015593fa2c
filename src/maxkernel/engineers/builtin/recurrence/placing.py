"""How values of a kernel's body lie in registers: every one is a matrix there.

A layout says which of a value's dimensions runs along sublanes and which along lanes; None stands
for a size of 1. A vector is a row `(None, 0)` or a column `(0, None)`.
"""

from __future__ import annotations

from collections.abc import Sequence

Layout = tuple[int | None, int | None]
Shape = tuple[int, ...]


def plain(layout: Layout, shape: Shape) -> Layout:
    """A layout with dimensions of size 1 left out."""
    first, second = (None if d is None or shape[d] == 1 else d for d in layout)
    return first, second


def default(shape: Shape) -> Layout:
    """Matrices as they are, vectors as rows."""
    return (0, 1) if len(shape) == 2 else (None, 0) if shape else (None, None)


def turned(layout: Layout) -> Layout:
    """The layout of the transposed matrix."""
    return layout[1], layout[0]


def below(layout: Layout, origins: Sequence[int | None]) -> Layout:
    """How the operand of a `place` lies where its result lies so."""
    first, second = (None if d is None else origins[d] for d in layout)
    return first, second


def above(layout: Layout, origins: Sequence[int | None]) -> Layout:
    """How the result of a `place` lies where its operand lies so; new dimensions take what is
    left, in order."""
    found = [None if d is None else _find(origins, d) for d in layout]
    missing = [d for d in range(len(origins)) if d not in found]
    for i, d in enumerate(found):
        if d is None and missing:
            found[i] = missing.pop(0)
    return found[0], found[1]


def _find(origins: Sequence[int | None], dimension: int) -> int | None:
    return origins.index(dimension) if dimension in origins else None


def size_text(layout: Layout, shape: Shape) -> str:
    """The shape of a matrix that lies so."""
    rows, cols = (1 if d is None else shape[d] for d in layout)
    return f"({rows}, {cols})"
