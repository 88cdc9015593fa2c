"""Block positions over a grid: which steps there are, and which block each window shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxkernel.worker.mosaic.errors import (
    BadArtifact,
    BrokenPromise,
    Exhausted,
    MosaicError,
    OutOfBounds,
)
from maxkernel.worker.mosaic.lower import Lowering
from maxkernel.worker.mosaic.memory import Array, Machine, Ref
from maxkernel.worker.mosaic.model import Options, Window
from maxkernel.worker.mosaic.syntax import Func

Step = tuple[int, ...]


def all_steps(grid: tuple[int, ...], limit: int) -> Array:
    """Every step in execution order (the last axis fastest), shape (steps, axes)."""
    if any(n < 0 for n in grid):
        raise BadArtifact(f"a negative grid bound in {grid}")
    count = 1
    for n in grid:
        count *= n
    if count > limit:
        raise Exhausted(f"a grid {grid} of more than {limit} steps")
    return (
        np.indices(grid, np.int32).reshape(len(grid), -1).T if grid else np.zeros((1, 0), np.int32)
    )


def parallel_groups(steps: Array, semantics: tuple[str, ...], seed: int | None) -> list[Array]:
    """The steps cut by position along `parallel` axes, in random order; whole without a seed."""
    axes = [k for k, s in enumerate(semantics) if s == "parallel"]
    if seed is None or not axes:
        return [steps]
    _, group = np.unique(steps[:, axes], axis=0, return_inverse=True)
    group = group.reshape(-1)
    order = np.random.default_rng(seed).permutation(int(group.max(initial=-1)) + 1)
    return [steps[group == g] for g in order]


@dataclass(slots=True)
class BlockMap:
    """A compiled transform: grid indices to block indices."""

    func: Func
    options: Options
    lanes: Lowering | None = None
    single: Lowering | None = None

    def table(self, steps: Array, prefetch: Sequence[Ref], grid: tuple[int, ...]) -> Array:
        """Block index per step, shape (steps, dimensions)."""
        try:
            if self.lanes is None:
                self.lanes = Lowering(self.func, self.options, lanes=True)
            columns: list[Any] = [np.ascontiguousarray(axis) for axis in steps.T]
            found = _call(self.lanes, columns, prefetch, grid)
        except (OutOfBounds, BrokenPromise):
            raise
        except MosaicError:
            rows = [self.at(tuple(int(i) for i in s), prefetch, grid) for s in steps]
            return np.array(rows, np.int64).reshape(len(steps), -1)
        lanes = [np.broadcast_to(np.asarray(v, np.int64), (len(steps),)) for v in found]
        return np.stack(lanes, 1) if lanes else np.zeros((len(steps), 0), np.int64)

    def at(self, step: Step, prefetch: Sequence[Ref], grid: tuple[int, ...]) -> Step:
        """Block index at one step."""
        if self.single is None:
            self.single = Lowering(self.func, self.options)
        return tuple(int(v) for v in _call(self.single, list(step), prefetch, grid))


def _call(
    code: Lowering, indices: list[Any], prefetch: Sequence[Ref], grid: tuple[int, ...]
) -> list[Any]:
    body = code.func.body
    if len(body.args) != len(indices) + len(prefetch):
        raise BadArtifact("a window's transform with the wrong number of arguments")
    frame = code.frame.copy()
    frame[0] = machine = Machine(code.options)
    machine.grid = grid
    for arg, value in zip(body.args, [*indices, *prefetch], strict=True):
        frame[arg] = value
    code.run(frame)
    return [frame[v] for v in body.ops[-1].operands]


@dataclass(frozen=True, slots=True)
class Region:
    """Where a block lies: the part of the array, and the part of the block that it fills."""

    inside: tuple[slice, ...]
    filled: tuple[slice, ...]
    whole: bool


def region(window: Window, index: Step, shape: tuple[int, ...], name: str) -> Region:
    """The part of an array of this shape that a block covers."""
    if not len(window.bounds) == len(index) == len(shape):
        raise BadArtifact(f"a window of {name} whose rank is not the array's")
    inside: list[slice] = []
    filled: list[slice] = []
    whole = True
    for axis, (at, n, extent) in enumerate(
        zip(window.start(index), window.bounds, shape, strict=True)
    ):
        low = -window.pad_low[axis] if window.element else 0
        high = extent + window.pad_high[axis] - n if window.element else extent - 1
        if not low <= at <= max(high, low) or n <= 0:
            raise OutOfBounds(
                f"block {index} of {name} starts at {at} in dimension {axis}, which has {extent}"
            )
        first, last = max(at, 0), min(at + n, extent)
        inside.append(slice(first, last))
        filled.append(slice(first - at, last - at))
        whole &= last - first == n
    return Region(tuple(inside), tuple(filled), whole)
