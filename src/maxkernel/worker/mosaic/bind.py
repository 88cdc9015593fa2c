"""Gives a kernel's arguments their memory: scalar prefetch, windows, whole arrays, scratch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxkernel.worker.mosaic.dtypes import numpy_dtype, poisoned
from maxkernel.worker.mosaic.errors import BadArtifact, Unsupported
from maxkernel.worker.mosaic.grid import Step
from maxkernel.worker.mosaic.lower import Frame
from maxkernel.worker.mosaic.memory import SEMAPHORES, Array, Buffer, Machine, Ref
from maxkernel.worker.mosaic.model import Kernel
from maxkernel.worker.mosaic.syntax import DYNAMIC
from maxkernel.worker.mosaic.windows import Slot, as_element


def split_operands(
    kernel: Kernel, operands: Sequence[Any]
) -> tuple[Step, list[Array], list[Array]]:
    """The grid, the scalar-prefetch arrays and the inputs of a call."""
    bounds = iter(operands[: kernel.dynamic_bounds])
    grid = tuple(int(next(bounds)) if n == DYNAMIC else n for n in kernel.grid)
    rest = [np.asarray(a) for a in operands[kernel.dynamic_bounds :]]
    return grid, rest[: kernel.prefetch], rest[kernel.prefetch :]


def fitted(array: Array, shape: tuple[int, ...]) -> Array:
    """The array as a ref of this shape, which may differ in dimensions of extent one only."""
    if [n for n in array.shape if n != 1] != [n for n in shape if n != 1]:
        raise BadArtifact(f"an array of shape {array.shape} given to a ref of shape {shape}")
    return array.reshape(shape)


def prefetch_refs(kernel: Kernel, arrays: Sequence[Array]) -> list[Ref]:
    """Scalar-prefetch arrays in SMEM."""
    first = len(kernel.grid)
    refs: list[Ref] = []
    for k, array in enumerate(arrays):
        t = kernel.body.types[kernel.body.body.args[first + k]]
        copy = as_element(array, numpy_dtype(t.element)).copy()
        refs.append(Ref(Buffer(f"scalar prefetch {k}"), fitted(copy, t.shape), t.element))
    return refs


@dataclass(slots=True, eq=False)
class Memory:
    """The memory of one launch.

    `arrays` are the inputs and outputs in HBM, `slots` the windowed ones among them, `whole` the
    refs of the others, by position; `arguments` gives the body's argument of each.
    """

    prefetch: list[Ref]
    arrays: list[Array]
    slots: dict[int, Slot]
    whole: dict[int, Ref]
    scratch: list[Ref]
    arguments: tuple[int, ...]


class _Binder:
    def __init__(self, kernel: Kernel, written: frozenset[int], machine: Machine) -> None:
        self.kernel, self.written, self.machine = kernel, written, machine
        args = kernel.body.body.args
        first = len(kernel.grid) + kernel.prefetch
        self.arguments = args[first : first + len(kernel.windows)]
        self.inputs = len(kernel.inputs)
        pairs = {v: self.inputs + k for k, v in kernel.aliases.items()}
        self.partner = pairs | {v: k for k, v in pairs.items()}
        self.shared: dict[int, Buffer] = {}
        self.marks: dict[int, Array] = {}

    def hbm(self, inputs: Sequence[Array]) -> list[Array]:
        """Arrays in HBM: inputs as they are, outputs full of poison, aliased pairs shared."""
        if len(inputs) != self.inputs:
            raise BadArtifact(f"{len(inputs)} inputs for {self.inputs}")
        found: list[Array] = []
        for k, argument in enumerate(self.arguments):
            t = self.kernel.body.types[argument]
            if t.element in SEMAPHORES:
                raise Unsupported("a semaphore passed into a kernel")
            dtype = numpy_dtype(t.element)
            if k < self.inputs:
                found.append(as_element(inputs[k], dtype))
            elif k in self.partner:
                found.append(found[self.partner[k]].copy())
                found[self.partner[k]] = found[k]
            else:
                shape = self.kernel.outputs[k - self.inputs].shape
                self.machine.reserve(math.prod(shape) * dtype.itemsize)
                found.append(poisoned(shape, dtype, self.machine.options.poison))
        return found

    def name(self, k: int) -> str:
        return f"input {k}" if k < self.inputs else f"output {k - self.inputs}"

    def slot(self, k: int, array: Array) -> Slot:
        """The window of operand or result `k`."""
        argument, paired = self.arguments[k], k in self.partner
        t = self.kernel.body.types[argument]
        output = k >= self.inputs
        mark = None
        if paired:
            group = min(k, self.partner[k])
            mark = self.marks.setdefault(group, np.zeros(array.shape, np.bool_))
        private = paired or (not output and argument in self.written)
        window = self.kernel.windows[k]
        self.machine.reserve(math.prod(window.bounds) * array.itemsize)
        return Slot(self.name(k), window, array, t.shape, t.element, output, private, mark)

    def ref(self, k: int, arrays: list[Array]) -> Ref:
        """The ref of an operand or result that the kernel gets whole."""
        argument, paired, output = self.arguments[k], k in self.partner, k >= self.inputs
        t = self.kernel.body.types[argument]
        if t.space in ("any", "hbm"):
            buffer = Buffer(self.name(k), readonly=not output and not paired)
            if paired:
                buffer = self.shared.setdefault(min(k, self.partner[k]), buffer)
            if output and not paired and self.machine.options.track:
                buffer.watch(arrays[k])
            return Ref(buffer, fitted(arrays[k], t.shape), t.element)
        if not output and (paired or argument in self.written):
            return Ref(Buffer(self.name(k)), fitted(arrays[k], t.shape).copy(), t.element)
        if output and paired:
            poison = self.machine.options.poison
            arrays[k] = poisoned(arrays[k].shape, arrays[k].dtype, poison)
        return Ref(Buffer(self.name(k)), fitted(arrays[k], t.shape), t.element)


def bind(
    kernel: Kernel,
    written: frozenset[int],
    machine: Machine,
    frame: Frame,
    prefetch: Sequence[Array],
    inputs: Sequence[Array],
) -> Memory:
    """Allocate everything and put the refs that do not change between steps into the frame."""
    binder = _Binder(kernel, written, machine)
    arrays = binder.hbm(inputs)
    args = kernel.body.body.args
    refs = prefetch_refs(kernel, prefetch)
    slots: dict[int, Slot] = {}
    whole: dict[int, Ref] = {}
    for k, window in enumerate(kernel.windows):
        if window.transform is not None:
            slots[k] = binder.slot(k, arrays[k])
        else:
            whole[k] = frame[binder.arguments[k]] = binder.ref(k, arrays)
    for k, ref in enumerate(refs):
        frame[args[len(kernel.grid) + k]] = ref
    return Memory(refs, arrays, slots, whole, [], binder.arguments)


def fresh_scratch(kernel: Kernel, machine: Machine, frame: Frame, memory: Memory) -> None:
    """Release the scratch of before, if any, and allocate new."""
    for ref in memory.scratch:
        machine.release(ref)
    args = kernel.body.body.args
    memory.scratch = [machine.allocate(t, f"scratch {k}") for k, t in enumerate(kernel.scratch)]
    for k, ref in enumerate(memory.scratch):
        frame[args[len(args) - len(memory.scratch) + k]] = ref
