"""The pipeline around a kernel's body: blocks come in, blocks go out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from maxkernel.worker.mosaic.dtypes import fill_poison, poisoned
from maxkernel.worker.mosaic.errors import Race, Unsupported
from maxkernel.worker.mosaic.grid import Region, Step, region
from maxkernel.worker.mosaic.memory import Array, Buffer, Machine, Ref
from maxkernel.worker.mosaic.model import Window
from maxkernel.worker.mosaic.ops.refs import squeezed_axes


@dataclass(slots=True, eq=False)
class Slot:
    """One windowed operand or result, and the block that it shows now.

    `written` marks the elements of an aliased array that earlier steps have written back: fetching
    them again is a race with that write-back. `private` asks for a copy of the block even where a
    view of the array would do, because the body writes to an input or the array is aliased.
    """

    name: str
    window: Window
    array: Array
    shape: tuple[int, ...]
    element: str
    output: bool
    private: bool
    written: Array | None = None
    index: Step | None = None
    place: Region | None = None
    block: Array | None = None
    ref: Ref | None = None

    def show(self, machine: Machine, index: Step) -> Ref:
        """The ref of the block with this index; a block shown before stays as it is."""
        if self.ref is not None and index == self.index:
            return self.ref
        self.retire()
        self.index = index
        self.place = place = region(self.window, index, self.array.shape, self.name)
        if self.output:
            self.block = self._blank(machine, place)
        else:
            self.block = self._fetch(machine, place)
        buffer = Buffer(f"the block of {self.name}")
        if self.output and machine.options.track:
            buffer.watch(self.block)
        self.ref = Ref(buffer, self._squeezed(self.block), self.element)
        return self.ref

    def _blank(self, machine: Machine, place: Region) -> Array:
        poison = machine.options.poison
        if self.private or not place.whole or machine.options.track:
            return poisoned(self.window.bounds, self.array.dtype, poison)
        block = self.array[place.inside]
        fill_poison(block, poison)
        return block

    def _fetch(self, machine: Machine, place: Region) -> Array:
        again = self.written is not None and self.written[place.inside].any()
        if again and machine.options.races:
            raise Race(
                f"block {self.index} of {self.name} is fetched after an earlier step wrote it back "
                "through the output aliased to it: the fetch may come first"
            )
        if place.whole and not self.private:
            return self.array[place.inside]
        block = poisoned(self.window.bounds, self.array.dtype, machine.options.poison)
        block[place.filled] = self.array[place.inside]
        return block

    def _squeezed(self, block: Array) -> Array:
        if block.shape == self.shape:
            return block
        kept = squeezed_axes(block.shape, self.shape)
        return block[tuple(slice(None) if keep else 0 for keep in kept)]

    def retire(self) -> None:
        """Write an output block back; nothing may still use the block."""
        ref, place, block = self.ref, self.place, self.block
        if ref is None or place is None or block is None:
            return
        if ref.buffer.pending:
            raise Race(
                f"the block of {self.name} is replaced while the DMA started at "
                f"{ref.buffer.pending[0].location} is in flight"
            )
        if self.output and not np.may_share_memory(block, self.array):
            self.array[place.inside] = block[place.filled]
        if self.output and self.written is not None:
            self.written[place.inside] = True
        self.ref = None


def as_element(array: Any, dtype: np.dtype[Any]) -> Array:
    """The array's bits as the signless type that Mosaic sees."""
    found = np.asarray(array)
    if found.dtype == dtype:
        return found
    if found.dtype.itemsize == dtype.itemsize:
        return found.view(dtype)
    raise Unsupported(f"an array of {found.dtype} given to a kernel as {dtype}")
