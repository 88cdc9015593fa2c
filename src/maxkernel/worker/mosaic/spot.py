"""Spot checks at full size: a few output blocks, computed by the grid steps that they need.

The steps that write a block are found by evaluating the windows' transforms over the grid. If
those steps read scratch that earlier steps should have left (a carried state), more steps are
added, one grid axis at a time from the innermost, until they stand on their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from maxkernel.worker.mosaic.artifact import Program
from maxkernel.worker.mosaic.bind import prefetch_refs, split_operands
from maxkernel.worker.mosaic.dtypes import poisoned
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
    result: list[Array] = []
    regions: list[tuple[slice, ...]] = []
    count = 0
    for block in blocks:
        wanted = table.writing(block)
        if not len(wanted):
            raise BadArtifact(f"no grid step of {kernel.name} writes block {block}")
        outputs, steps = _self_contained(exe, operands, table.steps, wanted)
        count += steps
        place = region(window, block, kernel.outputs[output].shape, f"output {output}").inside
        regions.append(place)
        if not result:
            result = outputs
        else:
            result[output][place] = outputs[output][place]
    return Partial(result, tuple(blocks), tuple(regions), count)


def _self_contained(
    exe: Executable, operands: Sequence[Any], steps: Array, wanted: Array
) -> tuple[list[Array], int]:
    for axes in range(len(exe.kernel.grid), -1, -1):
        chosen = wanted if axes == len(exe.kernel.grid) else _extended(steps, wanted, axes)
        try:
            done = launch(exe, operands, [tuple(s) for s in chosen.tolist()])
        except (Deadlock, OutOfBounds):
            if axes == 0:
                raise
            continue
        if not done.undefined or axes == 0:
            return done.outputs, len(chosen)
    raise AssertionError("unreachable")


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
    exe = program.executable(kernel, chosen)
    kept: dict[str, Any] = {}
    others: dict[int, list[Array]] = {}

    def sample(operands: Sequence[Array]) -> list[Array]:
        if "partial" in kept:
            raise Unsupported(f"a spot check of {exe.kernel.name}, which runs more than once")
        table = output_blocks(exe, output, operands)
        distinct = table.distinct()
        generator = np.random.default_rng(seed)
        rows = generator.choice(len(distinct), min(blocks, len(distinct)), replace=False)
        picked = [tuple(int(i) for i in distinct[r]) for r in sorted(rows)]
        kept["partial"] = run_blocks(exe, output, picked, operands)
        kept["total"] = len(table.steps)
        return _filled(kept["partial"], output, "nan")

    def remember(index: int) -> Any:
        def once(operands: Sequence[Array]) -> list[Array]:
            done = launch(program.executable(index, chosen), operands).outputs
            others.setdefault(index, done)
            return done

        return once

    instead: dict[int, Any] = {k: remember(k) for k in range(len(program.kernels)) if k != kernel}
    first = run(program, inputs, chosen, instead=instead | {kernel: sample})
    partial: Partial = kept["partial"]
    known = [np.ones(a.shape, np.bool_) for a in first]
    for fill in ("large", "small"):
        again = run(program, inputs, chosen, instead=_replay(partial, kernel, output, fill, others))
        for mask, a, b in zip(known, first, again, strict=True):
            mask &= _same(a, b)
    return Spot(first, known, partial.blocks, partial.steps, kept["total"])


def _replay(
    partial: Partial, kernel: int, output: int, fill: Any, others: Mapping[int, list[Array]]
) -> dict[int, Any]:
    def results(arrays: list[Array]) -> Instead:
        def instead(operands: Sequence[Array]) -> list[Array]:
            return arrays

        return instead

    found = {k: results(v) for k, v in others.items()}
    found[kernel] = results(_filled(partial, output, fill))
    return found


def _filled(partial: Partial, output: int, fill: Any) -> list[Array]:
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
