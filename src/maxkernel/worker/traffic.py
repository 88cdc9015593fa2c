"""HBM traffic of a Pallas pipeline, from its grid and index maps alone."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateUsage=false, reportMissingTypeStubs=false

from __future__ import annotations

import math
from typing import Any

from jax._src import core

from maxkernel.worker.jaxprs import open_jaxpr


def fetches(block: Any, grid: tuple[Any, ...]) -> int | None:
    """How often the pipeline moves a block of this operand; None where it cannot be known.

    Grid steps run in row-major order and a block that does not change is not moved again. So it
    moves once per step of all axes up to the innermost one (of more than one step) on which its
    index depends. An index map that repeats an index, such as i // 2, moves fewer than this says.
    """
    if not all(isinstance(size, int) for size in grid):
        return None
    axes = _axes_used(block.index_map_jaxpr, len(grid))
    if axes is None:
        return None
    inner = max((axis for axis in axes if grid[axis] > 1), default=-1)
    return math.prod(grid[: inner + 1])


def _axes_used(index_map: Any, rank: int) -> set[int] | None:
    """Grid axes on which the outputs of an index map depend; None when it reads prefetched data."""
    jaxpr = open_jaxpr(index_map)
    sources: dict[Any, set[int]] = {var: {axis} for axis, var in enumerate(jaxpr.invars)}
    for equation in jaxpr.eqns:
        union = _union(equation.invars, sources)
        sources.update(dict.fromkeys(equation.outvars, union))
    used = _union(jaxpr.outvars, sources)
    return None if any(axis >= rank for axis in used) else used


def _union(atoms: list[Any], sources: dict[Any, set[int]]) -> set[int]:
    found: set[int] = set()
    for atom in atoms:
        if not isinstance(atom, core.Literal):
            found |= sources.get(atom, set())
    return found
