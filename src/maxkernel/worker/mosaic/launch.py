"""Runs one kernel over its grid, with the TPU's rules for memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import maxkernel.worker.mosaic.ops  # noqa: F401  # pyright: ignore[reportUnusedImport]
from maxkernel.worker.mosaic.bind import Memory, bind, fresh_scratch, split_operands
from maxkernel.worker.mosaic.blas import one_thread
from maxkernel.worker.mosaic.errors import MosaicError, Unfinished, refusing
from maxkernel.worker.mosaic.grid import BlockMap, Step, all_steps, parallel_groups
from maxkernel.worker.mosaic.lower import Frame, Lowering, written_args
from maxkernel.worker.mosaic.memory import Array, Machine
from maxkernel.worker.mosaic.model import Kernel, Options


@dataclass(slots=True)
class Executable:
    """A kernel compiled for this interpreter; reusable for any number of launches."""

    kernel: Kernel
    options: Options
    code: Lowering
    written: frozenset[int]
    """Arguments whose memory the body may write."""
    maps: tuple[BlockMap | None, ...]


@dataclass(frozen=True, slots=True)
class Launched:
    """What a launch left behind.

    `undefined` is set when the steps that ran may depend on something that they did not compute:
    they read scratch or outputs that nothing had written, read a semaphore, left a DMA under way,
    or belong to a kernel that writes to its inputs or aliases them. Memory is only watched with
    `Options.track`.
    """

    outputs: list[Array]
    undefined: bool


def compile_kernel(kernel: Kernel, options: Options) -> Executable:
    """Compile a kernel's body. Raises `Unsupported` for what is not implemented."""
    try:
        with refusing("compiling a kernel"):
            code = Lowering(kernel.body, options)
    except MosaicError as error:
        error.kernel = kernel.name
        raise
    maps = tuple(BlockMap(w.transform, options) if w.transform else None for w in kernel.windows)
    return Executable(kernel, options, code, frozenset(written_args(kernel.body)), maps)


def block_getter(
    exe: Executable, k: int, memory: Memory, grid: Step, steps: Array
) -> Callable[[int, Step], Step]:
    """Block index of window `k` by the step's number and position.

    Computed for all steps at once unless the body may write to the scalar-prefetch refs.
    """
    found = exe.maps[k]
    assert found is not None
    first = len(exe.kernel.grid)
    args = exe.kernel.body.body.args[first : first + exe.kernel.prefetch]
    if exe.written.intersection(args):
        return lambda n, at: found.at(at, memory.prefetch, grid)
    rows = [tuple(row) for row in found.table(steps, memory.prefetch, grid).tolist()]
    return lambda n, at: rows[n]


def _run(exe: Executable, machine: Machine, frame: Frame, memory: Memory, steps: Array) -> None:
    axes = exe.kernel.body.body.args[: len(machine.grid)]
    order = sorted(memory.slots, reverse=True)
    blocks = {k: block_getter(exe, k, memory, machine.grid, steps) for k in order}
    at: Step = ()
    rows: list[list[int]] = steps.tolist()
    try:
        for n, row in enumerate(rows):
            at = tuple(row)
            machine.tick()
            for axis, i in zip(axes, row, strict=True):
                frame[axis] = i
            for k in order:
                index = blocks[k](n, at)
                frame[memory.arguments[k]] = memory.slots[k].show(machine, index)
            exe.code.run(frame)
        for k in order:
            memory.slots[k].retire()
    except MosaicError as error:
        error.step = error.step or at
        raise


def _settle(machine: Machine, memory: Memory) -> None:
    for ref in memory.scratch:
        machine.release(ref)
    for ref in memory.whole.values():
        if ref.buffer.pending:
            raise Unfinished(
                f"the kernel ends while the DMA started at {ref.buffer.pending[0].location} on "
                f"{ref.buffer.name} is in flight: wait for it"
            )


def _keeps_state_in_inputs(exe: Executable) -> bool:
    kernel = exe.kernel
    first = len(kernel.grid)
    inputs = kernel.body.body.args[first : first + kernel.prefetch + len(kernel.inputs)]
    return bool(kernel.aliases) or not exe.written.isdisjoint(inputs)


def launch(
    exe: Executable, operands: Sequence[Any], steps: Sequence[Step] | None = None
) -> Launched:
    """Run a kernel on the operands of its call.

    `steps` restricts the run to some grid steps, in the given order; what they do not write stays
    poison. Raises a `MosaicError` that names the kernel, the step and the operation.
    """
    kernel = exe.kernel
    try:
        with refusing("running a kernel"), np.errstate(all="ignore"), one_thread():
            grid, prefetch, inputs = split_operands(kernel, operands)
            machine = Machine(exe.options)
            machine.grid = grid
            machine.undefined = _keeps_state_in_inputs(exe)
            frame = exe.code.frame.copy()
            frame[0] = machine
            memory = bind(kernel, exe.written, machine, frame, prefetch, inputs)
            chosen = (
                all_steps(grid, exe.options.steps)
                if steps is None
                else np.array(steps, np.int32).reshape(len(steps), len(grid))
            )
            for group in parallel_groups(chosen, kernel.semantics, exe.options.shuffle):
                fresh_scratch(kernel, machine, frame, memory)
                _run(exe, machine, frame, memory, group)
            undefined = machine.undefined
            if steps is None:
                _settle(machine, memory)
            else:
                undefined |= any(ref.buffer.pending for ref in memory.whole.values())
            return Launched(memory.arrays[len(kernel.inputs) :], undefined)
    except MosaicError as error:
        error.kernel = kernel.name
        raise
