"""Constants of a program that follow from its inputs' sizes.

A reference is traced at full size, so that `length - 64` is a plain number in its graph. A kernel
serves the check size as well, and must write such a number relative to the size.
"""

from __future__ import annotations

from collections.abc import Mapping

from maxkernel.engineers.builtin.axes import Axis
from maxkernel.engineers.builtin.build import Builder

COMPARISONS = frozenset({"lt", "le", "gt", "ge"})


def relative_bound(
    build: Builder, args: tuple[int, ...], check: Mapping[Axis, int]
) -> tuple[int, ...]:
    """The sides of a comparison, a bound of an index as its distance from the index's end.

    `check`: extents of axes at check size. A bound that is inside at full size and outside at check
    size would leave nothing to check, so it is taken for one that counts from the end.
    """
    found = list(args)
    for side, other in ((0, 1), (1, 0)):
        value, index = build.program.literal(args[side]), build.program[args[other]]
        if value is None or index.op != "iota" or len(index.attr("over")) != 1:
            continue
        (axis,) = over = index.attr("over")
        distance = build.program.sizes[axis] - int(value)
        if 0 < distance < check.get(axis, 0) <= value:
            size = build.leaf("size", "int", (), over=over)
            found[side] = build.apply("sub", (size, build.literal(distance, "int")))
    return tuple(found)
