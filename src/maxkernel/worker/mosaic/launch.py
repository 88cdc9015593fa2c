"""Runs one kernel over its grid, with the TPU's rules for memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import maxkernel.worker.mosaic.ops  # noqa: F401  # pyright: ignore[reportUnusedImport]
from maxkernel.worker.mosaic.dtypes import numpy_dtype, poisoned
from maxkernel.worker.mosaic.errors import BadArtifact, MosaicError, Unsupported
from maxkernel.worker.mosaic.grid import BlockMap, Step, all_steps
from maxkernel.worker.mosaic.lower import Lowering, written_args
from maxkernel.worker.mosaic.memory import SEMAPHORES, Array, Buffer, Machine, Ref
from maxkernel.worker.mosaic.model import Kernel, Options
from maxkernel.worker.mosaic.syntax import DYNAMIC
from maxkernel.worker.mosaic.windows import Slot, as_element


@dataclass(slots=True)
class Executable:
    """A kernel compiled for this interpreter; reusable for any number of launches."""

    kernel: Kernel
    options: Options
    code: Lowering
    written: frozenset[int]
    maps: tuple[BlockMap | None, ...]


def compile_kernel(kernel: Kernel, options: Options) -> Executable:
    """Compile a kernel's body. Raises `Unsupported` for what is not implemented."""
    try:
        code = Lowering(kernel.body, options)
    except MosaicError as error:
        error.kernel = kernel.name
        raise
    maps = tuple(BlockMap(w.transform, options) if w.transform else None for w in kernel.windows)
    return Executable(kernel, options, code, frozenset(written_args(kernel.body)), maps)


def split_operands(
    kernel: Kernel, operands: Sequence[Any]
) -> tuple[Step, list[Array], list[Array]]:
    """The grid, the scalar-prefetch arrays and the inputs of a call."""
    bounds = iter(operands[: kernel.dynamic_bounds])
    grid = tuple(int(next(bounds)) if n == DYNAMIC else n for n in kernel.grid)
    rest = [np.asarray(a) for a in operands[kernel.dynamic_bounds :]]
    return grid, rest[: kernel.prefetch], rest[kernel.prefetch :]


class _Launch:
    def __init__(self, exe: Executable, operands: Sequence[Any]) -> None:
        self.exe, kernel = exe, exe.kernel
        self.machine = Machine(exe.options)
        self.grid, prefetch, inputs = split_operands(kernel, operands)
        self.machine.grid = self.grid
        self.args = kernel.body.body.args
        self.types = kernel.body.types
        self.frame = exe.code.frame.copy()
        self.frame[0] = self.machine
        self.prefetch = self._bind_prefetch(prefetch)
        self.arrays = self._arrays(inputs)
        self.slots: dict[int, Slot] = {}
        self._bind_windows()
        self.scratch = self._bind_scratch()

    def _bind_prefetch(self, arrays: list[Array]) -> list[Ref]:
        first = len(self.grid)
        refs: list[Ref] = []
        for k, array in enumerate(arrays):
            t = self.types[self.args[first + k]]
            copy = as_element(array, numpy_dtype(t.element)).copy()
            refs.append(Ref(Buffer(f"scalar prefetch {k}"), copy.reshape(t.shape), t.element))
            self.frame[self.args[first + k]] = refs[k]
        return refs

    def _arrays(self, inputs: list[Array]) -> list[Array]:
        kernel = self.exe.kernel
        if len(inputs) != len(kernel.inputs):
            raise BadArtifact(f"{len(inputs)} inputs for {len(kernel.inputs)}")
        found: list[Array] = []
        for k in range(len(kernel.windows)):
            t = self.types[self.args[len(self.grid) + kernel.prefetch + k]]
            output = k - len(inputs)
            if t.element in SEMAPHORES:
                raise Unsupported("a semaphore passed into a kernel")
            dtype = numpy_dtype(t.element)
            if output < 0:
                found.append(as_element(inputs[k], dtype))
            elif output in kernel.aliases:
                found.append(found[kernel.aliases[output]].copy())
                found[kernel.aliases[output]] = found[-1]
            else:
                shape = kernel.outputs[output].shape
                found.append(poisoned(shape, dtype, self.exe.options.poison))
        return found

    def _bind_windows(self) -> None:
        kernel, count = self.exe.kernel, len(self.exe.kernel.inputs)
        partner = {v: count + k for k, v in kernel.aliases.items()}
        partner |= {v: k for k, v in partner.items()}
        buffers: dict[int, Buffer] = {}
        written: dict[int, Array] = {}
        for k, (window, array) in enumerate(zip(kernel.windows, self.arrays, strict=True)):
            arg = self.args[len(self.grid) + kernel.prefetch + k]
            output, t = k >= count, self.types[arg]
            name = f"output {k - count}" if output else f"input {k}"
            if window.transform is not None:
                group = min(k, partner.get(k, k))
                if k in partner and group not in written:
                    written[group] = np.zeros(array.shape, np.bool_)
                private = k in partner or (not output and arg in self.exe.written)
                self.slots[k] = Slot(
                    name, window, array, t.shape, t.element, output, private, written.get(group)
                )
                continue
            self.frame[arg] = self._whole(k, arg, name, buffers, partner)

    def _whole(
        self, k: int, arg: int, name: str, buffers: dict[int, Buffer], partner: dict[int, int]
    ) -> Ref:
        t, array = self.types[arg], self.arrays[k]
        output = k >= len(self.exe.kernel.inputs)
        hbm = t.space in ("any", "hbm")
        if not hbm and not output and arg in self.exe.written:
            array = array.copy()
        readonly = hbm and not output and k not in partner
        buffer = Buffer(name, readonly)
        if k in partner and hbm:
            buffer = buffers.setdefault(min(k, partner[k]), buffer)
        return Ref(buffer, array.reshape(t.shape), t.element)

    def _bind_scratch(self) -> list[Ref]:
        kernel = self.exe.kernel
        first = len(self.args) - len(kernel.scratch)
        refs: list[Ref] = []
        for k, t in enumerate(kernel.scratch):
            refs.append(self.machine.allocate(t, f"scratch {k}"))
            self.frame[self.args[first + k]] = refs[k]
        return refs

    def run(self, steps: Array) -> list[Array]:
        kernel, machine, frame = self.exe.kernel, self.machine, self.frame
        first = len(self.grid)
        lazy = any(a in self.exe.written for a in self.args[first : first + kernel.prefetch])
        tables = {} if lazy else {k: self._table(k, steps) for k in self.slots}
        outputs_first = sorted(self.slots, reverse=True)
        where: Step = ()
        try:
            rows: list[list[int]] = steps.tolist()
            for n, row in enumerate(rows):
                where = tuple(row)
                machine.tick()
                for axis, i in enumerate(where):
                    frame[self.args[axis]] = i
                shown = {k: t[n] if t else self._block(k, where) for k, t in tables.items()}
                if lazy:
                    shown = {k: self._block(k, where) for k in self.slots}
                for k in outputs_first:
                    arg = self.args[first + kernel.prefetch + k]
                    frame[arg] = self.slots[k].show(machine, shown[k])
                self.exe.code.run(frame)
        except MosaicError as error:
            error.step = error.step or where
            raise
        for k in outputs_first:
            self.slots[k].retire()
        for ref in self.scratch:
            machine.release(ref)
        self._settle()
        return self.arrays[len(kernel.inputs) :]

    def _settle(self) -> None:
        first = len(self.grid) + self.exe.kernel.prefetch
        for k in range(len(self.arrays)):
            ref = self.frame[self.args[first + k]]
            if k not in self.slots and isinstance(ref, Ref) and ref.buffer.pending:
                self.machine.bytes += ref.array.nbytes
                self.machine.release(ref)

    def _table(self, k: int, steps: Array) -> list[Step]:
        found = self.exe.maps[k]
        assert found is not None
        return [tuple(row) for row in found.table(steps, self.prefetch, self.grid).tolist()]

    def _block(self, k: int, step: Step) -> Step:
        found = self.exe.maps[k]
        assert found is not None
        return found.at(step, self.prefetch, self.grid)


def launch(
    exe: Executable, operands: Sequence[Any], steps: Sequence[Step] | None = None
) -> list[Array]:
    """Run a kernel on the operands of its call and return its results.

    `steps` restricts the run to some grid steps, in the given order; what they do not write stays
    poison. Raises a `MosaicError` that names the kernel, the step and the operation.
    """
    try:
        with np.errstate(all="ignore"):
            run = _Launch(exe, operands)
            chosen = (
                all_steps(run.grid, exe.options.steps)
                if steps is None
                else np.array(steps, np.int32).reshape(len(steps), len(run.grid))
            )
            return run.run(chosen)
    except MosaicError as error:
        error.kernel = exe.kernel.name
        raise
