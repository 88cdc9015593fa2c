"""Refs, semaphores and DMAs: the state of one running kernel."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from maxkernel.worker.mosaic.dtypes import bits, fill_poison, numpy_dtype, poisoned
from maxkernel.worker.mosaic.errors import (
    BadArtifact,
    Deadlock,
    Exhausted,
    OutOfBounds,
    Race,
    Unfinished,
    Unsupported,
    WrittenInput,
)
from maxkernel.worker.mosaic.model import Options
from maxkernel.worker.mosaic.packing import recast
from maxkernel.worker.mosaic.syntax import DYNAMIC, Type

Array = np.ndarray[Any, Any]
OVERLAP_WORK = 100_000
"""Effort that numpy may spend on deciding whether two views overlap."""
SEMAPHORES = {"dma_semaphore", "semaphore"}


@dataclass(slots=True, eq=False)
class Buffer:
    """One allocation. `pending` lists the DMAs in flight that touch it.

    Where undefined reads are tracked, `whole` is its array and `defined` says which elements were
    written.
    """

    name: str
    readonly: bool = False
    pending: list[Copy] = field(default_factory=list["Copy"])
    whole: Array | None = None
    defined: Array | None = None

    def watch(self, array: Array) -> None:
        """Track which elements of this array, the buffer's own, are written."""
        self.whole, self.defined = array, np.zeros(array.shape, np.bool_)

    def shadow(self, view: Array) -> Array:
        """The part of `defined` that belongs to a view of the allocation."""
        assert self.whole is not None and self.defined is not None
        size = view.itemsize
        at = view.__array_interface__["data"][0] - self.whole.__array_interface__["data"][0]
        strides = tuple(n // size for n in view.strides)
        return np.ndarray(view.shape, np.bool_, self.defined.data, at // size, strides)


@dataclass(slots=True, eq=False)
class Ref:
    """A memref: a numpy view of a buffer, of element type `element`.

    For a ref that reinterprets another one's bits (`parent`), `array` holds positions in the
    flattened reinterpretation instead of values; slices and reshapes work on it all the same.
    """

    buffer: Buffer
    array: Array
    element: str
    parent: Ref | None = None

    def view(self, array: Array) -> Ref:
        """A ref to a part of this one."""
        return Ref(self.buffer, array, self.element, self.parent)

    def bytes(self) -> float:
        """Its size; elements narrower than a byte are packed."""
        return self.array.size * bits(self.element) / 8

    def reinterpreted(self) -> Array:
        """Of a ref with a parent: the parent's elements recast, flat."""
        assert self.parent is not None
        return recast(self.parent.array, self.parent.element, self.element).reshape(-1)


@dataclass(slots=True, eq=False)
class Semaphore:
    """A counter. For DMA semaphores `debt` is the bytes waited for but not yet accounted."""

    dma: bool
    count: int = 0
    debt: float = 0.0
    copies: list[Copy] = field(default_factory=list["Copy"])


@dataclass(slots=True, eq=False)
class Copy:
    """A DMA in flight."""

    source: Ref
    target: Ref
    semaphore: Semaphore
    bytes: float
    location: str


def overlap(a: Array, b: Array) -> bool:
    """True when two views may share an element; certain unless numpy finds it too hard."""
    work: Any = OVERLAP_WORK
    try:
        return np.shares_memory(a, b, max_work=work)
    except np.exceptions.TooHardError:
        return True


class Machine:
    """The core that runs a kernel: its options, fuel, allocations and semaphores."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.fuel = options.steps
        self.deadline = time.monotonic() + options.seconds
        self.bytes = 0
        self.grid: tuple[int, ...] = ()
        self.undefined = False

    def tick(self) -> None:
        """Account for one grid step or loop iteration."""
        self.fuel -= 1
        if self.fuel < 0:
            raise Exhausted(f"more than {self.options.steps} grid steps and loop iterations")
        if time.monotonic() > self.deadline:
            raise Exhausted(f"the run took more than {self.options.seconds:g} s")

    def reserve(self, nbytes: int) -> None:
        """Account for memory about to be allocated."""
        self.bytes += nbytes
        if self.bytes > self.options.memory_bytes:
            raise Exhausted(f"refs of more than {self.options.memory_bytes >> 20} MiB")

    def allocate(self, t: Type, name: str) -> Ref:
        """A new ref full of poison, or of fresh semaphores."""
        if DYNAMIC in t.shape:
            raise Unsupported(f"an allocation of dynamic shape {t}")
        if t.element in SEMAPHORES:
            cells = np.empty(t.shape, object)
            for at in np.ndindex(t.shape):
                cells[at] = Semaphore(t.element == "dma_semaphore")
            return Ref(Buffer(name), cells, t.element)
        dtype = numpy_dtype(t.element)
        self.reserve(t.size * dtype.itemsize)
        buffer, array = Buffer(name), poisoned(t.shape, dtype, self.options.poison)
        if self.options.track:
            buffer.watch(array)
        return Ref(buffer, array, t.element)

    def release(self, ref: Ref) -> None:
        """End of a ref's life: nothing may still touch it."""
        if ref.element in SEMAPHORES:
            for cell in ref.array.flat:
                self._settled(cell, ref.buffer.name)
            return
        self.bytes -= ref.array.nbytes
        if ref.buffer.pending:
            raise Unfinished(
                f"{ref.buffer.name} goes out of scope while the DMA started at "
                f"{ref.buffer.pending[0].location} is in flight: wait for it"
            )

    def _settled(self, cell: Semaphore, name: str) -> None:
        if cell.copies:
            raise Unfinished(
                f"the DMA started at {cell.copies[0].location} on semaphore {name} was never "
                "waited for"
            )
        if cell.count or cell.debt:
            raise Unfinished(f"semaphore {name} ends with value {cell.count}, not 0")

    def reading(self, ref: Ref, view: Array) -> None:
        """A read of `view`: refused while a DMA may be writing it."""
        if ref.buffer.defined is not None and not self.undefined:
            self.undefined = not ref.buffer.shadow(view).all()
        for copy in ref.buffer.pending:
            if copy.target.buffer is ref.buffer and overlap(copy.target.array, view):
                self._race("read", ref, copy, "writing")

    def writing(self, ref: Ref, view: Array, mask: Array | None = None) -> None:
        """A write to `view`: refused while a DMA may be reading or writing it."""
        if ref.buffer.defined is not None:
            ref.buffer.shadow(view)[... if mask is None else mask] = True
        if ref.buffer.readonly:
            raise WrittenInput(f"the kernel writes to {ref.buffer.name}, an input not aliased")
        for copy in ref.buffer.pending:
            if copy.target.buffer is ref.buffer and overlap(copy.target.array, view):
                self._race("written", ref, copy, "writing")
            if copy.source.buffer is ref.buffer and overlap(copy.source.array, view):
                self._race("written", ref, copy, "reading")

    def _race(self, done: str, ref: Ref, copy: Copy, doing: str) -> None:
        if self.options.races:
            raise Race(
                f"{ref.buffer.name} is {done} while the DMA started at {copy.location} may still "
                f"be {doing} it: wait for that DMA first"
            )

    def start(self, source: Ref, target: Ref, semaphore: Semaphore, location: str) -> None:
        """Start a DMA; its bytes move now or at the wait, as the options say."""
        if source.parent or target.parent:
            raise Unsupported("a DMA of a ref whose element type was reinterpreted")
        if source.array.shape != target.array.shape or source.element != target.element:
            raise BadArtifact(
                f"a DMA from {source.array.shape} {source.element} to "
                f"{target.array.shape} {target.element}"
            )
        if not semaphore.dma:
            raise BadArtifact("a DMA signals a semaphore that is not a DMA semaphore")
        self.reading(source, source.array)
        self.writing(target, target.array)
        copy = Copy(source, target, semaphore, target.bytes(), location)
        if self.options.dma == "start":
            target.array[...] = source.array
        else:
            fill_poison(target.array, self.options.poison)
        semaphore.copies.append(copy)
        source.buffer.pending.append(copy)
        if target.buffer is not source.buffer:
            target.buffer.pending.append(copy)

    def wait(self, semaphore: Semaphore, nbytes: float) -> None:
        """Wait until DMAs have moved `nbytes` on this semaphore.

        A semaphore counts bytes, not DMAs, and DMAs may finish in any order: none is known to be
        complete until as many bytes were waited for as were started.
        """
        started = sum(c.bytes for c in semaphore.copies)
        semaphore.debt += nbytes
        if semaphore.debt > started:
            raise Deadlock(
                f"a wait for {nbytes:g} bytes of DMA while only "
                f"{started - semaphore.debt + nbytes:g} are under way on its semaphore: the kernel "
                "hangs here"
            )
        if semaphore.debt == started:
            for copy in semaphore.copies:
                self._finish(copy)
            semaphore.copies.clear()
            semaphore.debt = 0

    def _finish(self, copy: Copy) -> None:
        if self.options.dma == "wait":
            copy.target.array[...] = copy.source.array
        copy.source.buffer.pending.remove(copy)
        if copy.target.buffer is not copy.source.buffer:
            copy.target.buffer.pending.remove(copy)


def bounded(start: int, size: int, extent: int, axis: int, name: str) -> None:
    """Check `start .. start + size` against one dimension of a ref."""
    if start < 0 or start + size > extent:
        raise OutOfBounds(
            f"elements {start} to {start + size - 1} of dimension {axis} of {name}, which has "
            f"{extent}"
        )
