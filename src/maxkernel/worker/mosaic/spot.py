"""Spot checks at full size: a few output blocks, computed by the grid steps that they need.

The steps that write a block are found by evaluating the windows' transforms over the grid. If
those steps read scratch that earlier steps should have left (a carried state), more steps are
added, one grid axis at a time from the innermost, until they stand on their own. A kernel that
hands something on along its whole grid runs from its first step, once for all blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from maxkernel.worker.mosaic.artifact import Program
from maxkernel.worker.mosaic.bind import prefetch_refs, split_operands
from maxkernel.worker.mosaic.dtypes import Poison, poisoned
from maxkernel.worker.mosaic.errors import BadArtifact, Deadlock, OutOfBounds, Unsupported
from maxkernel.worker.mosaic.grid import Step, all_steps, region
from maxkernel.worker.mosaic.launch import Executable, launch
from maxkernel.worker.mosaic.memory import Array
from maxkernel.worker.mosaic.model import Options
from maxkernel.worker.mosaic.outer import Instead, run


@dataclass(frozen=True, slots=True)
class Blocks:
    """Which block of one output every grid step writes: `steps` and `blocks` row by row."""

    steps: Array
    blocks: Array

    def distinct(self) -> Array:
        """The different blocks, shape (blocks, dimensions)."""
        return np.unique(self.blocks, axis=0)

    def writing(self, block: Step) -> Array:
        """The steps that show this block, in execution order."""
        return self.steps[(self.blocks == np.array(block, np.int64)).all(1)]


def output_blocks(exe: Executable, output: int, operands: Sequence[Any]) -> Blocks:
    """The blocks of one output over the whole grid.

    Raises `Unsupported` for an output that the kernel writes by itself (no window).
    """
    kernel = exe.kernel
    found = exe.maps[len(kernel.inputs) + output]
    if found is None:
        raise Unsupported(
            f"output {output} of {kernel.name} is written by the kernel's own DMAs: which steps "
            "write where is not known without running them all"
        )
    grid, prefetch, _ = split_operands(kernel, operands)
    steps = all_steps(grid, exe.options.steps)
    return Blocks(steps, found.table(steps, prefetch_refs(kernel, prefetch), grid))


def _extended(steps: Array, wanted: Array, axes: int) -> Array:
    """All steps up to the last wanted one that share the leading `axes` indices with one."""
    keep = np.zeros(len(steps), np.bool_)
    prefixes = {tuple(row) for row in wanted[:, :axes].tolist()}
    for k, row in enumerate(steps[:, :axes].tolist()):
        keep[k] = tuple(row) in prefixes
    last = int(np.flatnonzero((steps == wanted[-1]).all(1))[-1])
    keep[last + 1 :] = False
    return steps[keep]


@dataclass(frozen=True, slots=True)
class Partial:
    """Some blocks of a kernel's output: `outputs` hold poison outside them."""

    outputs: list[Array]
    blocks: tuple[Step, ...]
    regions: tuple[tuple[slice, ...], ...]
    steps: int
    """Grid steps that were run."""


def run_blocks(
    exe: Executable, output: int, blocks: Sequence[Step], operands: Sequence[Any]
) -> Partial:
    """Compute some blocks of one output. `exe` must have been compiled with `Options.track`."""
    table = output_blocks(exe, output, operands)
    kernel = exe.kernel
    window = kernel.windows[len(kernel.inputs) + output]
    shape = kernel.outputs[output].shape
    places = [region(window, block, shape, f"output {output}").inside for block in blocks]
    writing = [table.writing(block) for block in blocks]
    for block, wanted in zip(blocks, writing, strict=True):
        if not len(wanted):
            raise BadArtifact(f"no grid step of {kernel.name} writes block {block}")
    result: list[Array] = []
    count, axes = 0, len(kernel.grid)
    for place, wanted in zip(places, writing, strict=True):
        done = _self_contained(exe, operands, table.steps, wanted, axes)
        if done is None:
            outputs, steps = _from_the_start(exe, operands, table.steps, writing)
            return Partial(outputs, tuple(blocks), tuple(places), count + steps)
        outputs, steps, axes = done
        count += steps
        if not result:
            result = outputs
        else:
            result[output][place] = outputs[output][place]
    return Partial(result, tuple(blocks), tuple(places), count)


def _self_contained(
    exe: Executable, operands: Sequence[Any], steps: Array, wanted: Array, axes: int
) -> tuple[list[Array], int, int] | None:
    """The outputs that the wanted steps write, how many steps that took, and how many leading axes
    those share; None where nothing less will do than all steps before.

    It starts with `axes` axes, those that another block took: fewer would do too, more may.
    """
    for shared in range(axes, 0, -1):
        chosen = wanted if shared == len(exe.kernel.grid) else _extended(steps, wanted, shared)
        try:
            done = launch(exe, operands, [tuple(s) for s in chosen.tolist()])
        except (Deadlock, OutOfBounds):
            continue
        if not done.undefined:
            return done.outputs, len(chosen), shared
    return None


def _from_the_start(
    exe: Executable, operands: Sequence[Any], steps: Array, writing: Sequence[Array]
) -> tuple[list[Array], int]:
    """All steps up to the last that is wanted, once for all blocks."""
    last = max(int(np.flatnonzero((steps == wanted[-1]).all(1))[-1]) for wanted in writing)
    done = launch(exe, operands, [tuple(s) for s in steps[: last + 1].tolist()])
    return done.outputs, last + 1


@dataclass(frozen=True, slots=True)
class Spot:
    """A program's results as far as some blocks of one kernel determine them.

    `known` marks, per result, the elements that depend on computed blocks only; elsewhere the
    values mean nothing.
    """

    outputs: list[Array]
    known: list[Array]
    blocks: tuple[Step, ...]
    steps: int
    total_steps: int


class _Sampler:
    """Stands in for the kernels of a program while some blocks of one of them are computed.

    The sampled kernel runs once; other kernels run again only for operands not seen before.
    """

    def __init__(
        self, program: Program, kernel: int, output: int, blocks: int, seed: int, options: Options
    ) -> None:
        self.program, self.kernel, self.output = program, kernel, output
        self.count, self.seed, self.options = blocks, seed, options
        self.partial: Partial | None = None
        self.total = 0
        self.done: list[tuple[int, Sequence[Array], list[Array]]] = []

    def run(self, inputs: Sequence[Any], fill: Poison) -> list[Array]:
        """The program's results with `fill` in the blocks left out."""
        calls: list[int] = []

        def mine(operands: Sequence[Array]) -> list[Array]:
            calls.append(self.kernel)
            return _filled(self.sample(operands), self.output, fill)

        def other(index: int) -> Instead:
            return lambda operands: self.full(index, operands)

        instead = {k: other(k) for k in range(len(self.program.kernels))} | {self.kernel: mine}
        found = run(self.program, inputs, self.options, instead=instead)
        if len(calls) != 1:
            name = self.program.kernels[self.kernel].name
            raise Unsupported(f"a spot check of {name}, which runs {len(calls)} times")
        return found

    def sample(self, operands: Sequence[Array]) -> Partial:
        if self.partial is None:
            exe = self.program.executable(self.kernel, self.options)
            table = output_blocks(exe, self.output, operands)
            distinct = table.distinct()
            generator = np.random.default_rng(self.seed)
            count = min(self.count, len(distinct))
            rows = generator.choice(len(distinct), count, replace=False)
            picked = [tuple(int(i) for i in distinct[r]) for r in sorted(rows)]
            self.partial = run_blocks(exe, self.output, picked, operands)
            self.total = len(table.steps)
        return self.partial

    def full(self, index: int, operands: Sequence[Array]) -> list[Array]:
        for k, before, outputs in self.done:
            if k == index and all(_same(a, b).all() for a, b in zip(before, operands, strict=True)):
                return outputs
        found = launch(self.program.executable(index, self.options), operands).outputs
        self.done.append((index, operands, found))
        return found


def spot_check(
    program: Program,
    inputs: Sequence[Any],
    *,
    kernel: int,
    output: int = 0,
    blocks: int,
    seed: int,
    options: Options | None = None,
) -> Spot:
    """Execute a program with only some random blocks of one kernel's output computed.

    Other kernels run in full, so the one to sample should be the last. The rest of the program
    runs twice more with other values in the blocks left out; what stays the same is `known`.
    """
    chosen = replace(options or Options(), track=True)
    sampler = _Sampler(program, kernel, output, blocks, seed, chosen)
    first = sampler.run(inputs, "nan")
    known = [np.ones(a.shape, np.bool_) for a in first]
    for fill in ("large", "small"):
        for mask, a, b in zip(known, first, sampler.run(inputs, fill), strict=True):
            mask &= _same(a, b)
    partial = sampler.partial
    assert partial is not None
    return Spot(first, known, partial.blocks, partial.steps, sampler.total)


def _filled(partial: Partial, output: int, fill: Poison) -> list[Array]:
    found: list[Array] = []
    for k, array in enumerate(partial.outputs):
        new = poisoned(array.shape, array.dtype, fill)
        if k == output:
            for place in partial.regions:
                new[place] = array[place]
        found.append(new)
    return found


def _same(a: Array, b: Array) -> Array:
    size = a.dtype.itemsize
    words = np.dtype(f"u{size}") if size in (1, 2, 4, 8) else np.dtype(np.uint8)
    return np.ascontiguousarray(a).view(words) == np.ascontiguousarray(b).view(words)
