"""Which blocks a kernel touches at each size: a grid may fit the check size and not the full one.

The two programs may be the same up to sizes and still one of them leave blocks out, where a grid
or a block index is capped. The blocks of every window are counted over the whole grid.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from maxkernel.worker import mosaic
from maxkernel.worker.failures import refuse
from maxkernel.worker.mosaic.grid import BlockMap, all_steps


def uncovered(full: mosaic.Program, check: mosaic.Program) -> Iterator[str]:
    """Windows of which the full-size program leaves out more than the check-size one, in words.

    Raises Refused when blocks of a result are left out at full size alone: nothing writes them.
    """
    if len(full.kernels) != len(check.kernels):
        return
    for large, small in zip(full.kernels, check.kernels, strict=True):
        found, known = covered(large), covered(small)
        if len(found) != len(known):
            continue
        for window, (mine, theirs) in enumerate(zip(found, known, strict=True)):
            if mine is None or mine == 1.0 or (theirs or 1.0) < mine:
                continue
            output = window - len(large.inputs)
            if output >= 0 and theirs == 1.0 and output not in large.aliases:
                refuse(
                    "check",
                    "hazard",
                    f"at full size, kernel {large.name} writes only {100 * mine:.4g} % of the "
                    f"blocks of its output {output}; at check size all of them",
                    "derive the grid from the shapes: pl.cdiv(rows, block_rows)",
                )
            kind = f"output {output}" if output >= 0 else f"operand {window}"
            yield (
                f"kernel {large.name}: {100 * mine:.4g} % of the blocks of {kind} are touched at "
                f"full size, {100 * (theirs or 0.0):.4g} % at check size"
            )


def covered(kernel: mosaic.Kernel) -> Sequence[float | None]:
    """Per window, the part of its blocks that the grid touches; None where data decide it."""
    if kernel.prefetch or kernel.dynamic_bounds:
        return [None] * len(kernel.windows)
    options = mosaic.Options()
    steps = all_steps(kernel.grid, options.steps)
    return [
        None
        if window.transform is None or window.element
        else _fraction(
            BlockMap(window.transform, options).table(steps, (), kernel.grid),
            tuple(math.ceil(n / b) for n, b in zip(array.shape, window.bounds, strict=True)),
        )
        for window, array in zip(kernel.windows, (*kernel.inputs, *kernel.outputs), strict=True)
    ]


def _fraction(table: NDArray[np.int64], counts: tuple[int, ...]) -> float:
    inside = ((table >= 0) & (table < np.array(counts, np.int64))).all(1)
    if not counts or not inside.any():
        return float(inside.any())
    flat = np.ravel_multi_index(tuple(table[inside].T), counts)
    return len(np.unique(flat)) / math.prod(counts)
