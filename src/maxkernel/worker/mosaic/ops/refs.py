"""Views of refs: slices, squeezes, reshapes; scoped allocations."""

from __future__ import annotations

import numpy as np

from maxkernel.worker.mosaic.errors import BadArtifact, OutOfBounds, Unsupported
from maxkernel.worker.mosaic.lower import Frame, Lowering, Step, handles
from maxkernel.worker.mosaic.memory import Array, Ref, bounded
from maxkernel.worker.mosaic.syntax import DYNAMIC, Op


@handles("tpu.memref_slice", effect="read")
def slice_ref(op: Op, c: Lowering) -> Step:
    """A rectangular part of a ref; out of bounds is an error, whatever is done with the part."""
    (base,), starts, sizes = op.groups()
    (o,) = op.results
    shape = c.type(o).shape
    if sum(n == DYNAMIC for n in shape) != len(sizes) or len(starts) != len(shape):
        raise BadArtifact("a slice with the wrong number of positions or sizes")

    def step(r: Frame) -> None:
        ref: Ref = r[base]
        dynamic = iter(sizes)
        index: list[slice] = []
        for axis, (start, n) in enumerate(zip(starts, shape, strict=True)):
            at = r[start]
            size = r[next(dynamic)] if n == DYNAMIC else n
            if size < 0:
                raise OutOfBounds(f"a slice of {size} elements of {ref.buffer.name}")
            bounded(at, size, ref.array.shape[axis], axis, ref.buffer.name)
            index.append(slice(at, at + size))
        r[o] = ref.view(ref.array[tuple(index)])

    return step


@handles("tpu.memref_squeeze", effect="read")
def squeeze_ref(op: Op, c: Lowering) -> Step:
    """Drop dimensions of extent one."""
    (a,), (o,) = op.operands, op.results
    kept = squeezed_axes(c.type(a).shape, c.type(o).shape)
    index = (*(slice(None) if keep else 0 for keep in kept), ...)

    def step(r: Frame) -> None:
        ref: Ref = r[a]
        r[o] = ref.view(ref.array[index])

    return step


def squeezed_axes(source: tuple[int, ...], target: tuple[int, ...]) -> list[bool]:
    """Which dimensions of `source` remain in `target`; the others have extent one."""
    kept: list[bool] = []
    wanted = list(reversed(target))
    for n in reversed(source):
        keep = bool(wanted) and wanted[0] == n
        if keep:
            wanted.pop(0)
        elif n != 1:
            raise BadArtifact(f"a squeeze from {source} to {target}")
        kept.append(keep)
    if wanted:
        raise BadArtifact(f"a squeeze from {source} to {target}")
    return kept[::-1]


@handles("tpu.memref_reshape", effect="read")
def reshape_ref(op: Op, c: Lowering) -> Step:
    """Another shape over the same elements, in row-major order."""
    (a,), (o,) = op.operands, op.results
    shape = c.type(o).shape

    def step(r: Frame) -> None:
        ref: Ref = r[a]
        r[o] = ref.view(reshaped_view(ref.array, shape))

    return step


def reshaped_view(array: Array, shape: tuple[int, ...]) -> Array:
    """A reshape that shares memory, or an error."""
    found = array.reshape(shape)
    if found.size and not np.may_share_memory(found, array):
        raise Unsupported(f"a reshape of a strided ref from {array.shape} to {shape}")
    return found


@handles("tpu.memref_bitcast", effect="read")
def bitcast_ref(op: Op, c: Lowering) -> Step:
    """The same memory as elements of another width."""
    (a,), (o,) = op.operands, op.results
    t = c.type(o)
    if DYNAMIC in t.shape:
        raise Unsupported("a bitcast of a ref of dynamic shape")

    def step(r: Frame) -> None:
        ref: Ref = r[a]
        if ref.parent is not None:
            raise Unsupported("a bitcast of a ref that is a bitcast itself")
        r[o] = Ref(ref.buffer, np.arange(t.size).reshape(t.shape), t.element, ref)

    return step


@handles("tpu.erase_memref_layout", "tpu.assume_layout", "memref.cast", effect="read")
def same_ref(op: Op, c: Lowering) -> Step:
    """Changes of physical layout only."""
    (a,), (o,) = op.operands, op.results
    if c.type(a).kind != "memref":
        raise Unsupported(f"{op.name} of {c.type(a)}")

    def step(r: Frame) -> None:
        r[o] = r[a]

    return step


@handles("memref.alloca", "tpu.sem_alloc", effect="write")
def allocate(op: Op, c: Lowering) -> Step:
    """Scoped memory or semaphores: poisoned, released at the end of the enclosing region."""
    (o,) = op.results
    if op.operands:
        raise Unsupported("an allocation of dynamic size")
    t = c.type(o)
    name = f"the scoped {t}"

    def step(r: Frame) -> None:
        r[o] = r[0].allocate(t, name)

    return step
