"""Loads and stores of vectors and scalars."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from maxkernel.worker.mosaic.dtypes import numpy_dtype, poisoned
from maxkernel.worker.mosaic.errors import BadArtifact, OutOfBounds, Unsupported
from maxkernel.worker.mosaic.lower import Frame, Lowering, Step, handles
from maxkernel.worker.mosaic.memory import Array, Machine, Ref, bounded
from maxkernel.worker.mosaic.ops.casts import as_scalar
from maxkernel.worker.mosaic.packing import recast
from maxkernel.worker.mosaic.syntax import DYNAMIC, Op

Locate = Callable[[Frame, Ref], Any]
"""Gives the index (a tuple of slices and ints) of an access."""


def locator(
    indices: tuple[int, ...],
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    c: Lowering,
    base: int,
) -> Locate:
    """Compile the position of a block of this shape in a ref; checks bounds when it is used."""
    extents = c.type(base).shape
    if len(indices) != len(extents):
        raise BadArtifact("an access with the wrong number of indices")
    leading = len(extents) - len(shape)
    if leading < 0:
        raise BadArtifact("a vector of higher rank than its ref")
    steps = (1,) * leading + (strides or (1,) * len(shape))
    sizes = (1,) * leading + shape
    starts = [c.known(i) for i in indices]

    def index(starts: list[int], ref: Ref) -> Any:
        found: list[Any] = []
        for axis, (at, n, by) in enumerate(zip(starts, sizes, steps, strict=True)):
            bounded(at, (n - 1) * by + 1, ref.array.shape[axis], axis, ref.buffer.name)
            found.append(at if axis < leading else slice(at, at + (n - 1) * by + 1, by))
        return tuple(found)

    if None not in starts and DYNAMIC not in extents:
        fixed: list[Any] = []

        def constant(r: Frame, ref: Ref) -> Any:
            if not fixed:
                fixed.append(index(starts, ref))
            return fixed[0]

        return constant

    def dynamic(r: Frame, ref: Ref) -> Any:
        return index([r[i] for i in indices], ref)

    return dynamic


def _load(
    o: int, base: int, locate: Locate, shape: tuple[int, ...], c: Lowering, mask: int | None
) -> Step:
    copy = o not in c.viewable
    strict, poison = c.options.check_bounds, c.options.poison
    dtype = numpy_dtype(c.type(o).element)

    def step(r: Frame) -> None:
        ref: Ref = r[base]
        try:
            view = ref.array[locate(r, ref)]
        except OutOfBounds:
            if strict:
                raise
            r[o] = poisoned(shape, dtype, poison)
            return
        if ref.parent is not None:
            r[0].reading(ref, ref.parent.array)
            view = ref.reinterpreted()[view]
        elif ref.buffer.pending or ref.buffer.defined is not None:
            r[0].reading(ref, view)
        r[o] = view.copy() if copy else view
        if mask is not None:
            r[o] = np.where(r[mask], r[o], poisoned((), dtype, poison))

    return step


@handles("vector.load", "tpu.strided_load", effect="read")
def load(op: Op, c: Lowering) -> Step:
    """A block of a ref, possibly with strides."""
    (o,), base = op.results, op.operands[0]
    shape = c.type(o).shape
    locate = locator(op.operands[1:], shape, op.integers("strides"), c, base)
    return _load(o, base, locate, shape, c, None)


@handles("tpu.vector_load", effect="read")
def masked_load(op: Op, c: Lowering) -> Step:
    """As `load`; lanes that the mask leaves out hold poison."""
    (o,) = op.results
    (base,), indices, masks = op.groups()
    shape = c.type(o).shape
    locate = locator(indices, shape, op.integers("strides"), c, base)
    return _load(o, base, locate, shape, c, masks[0] if masks else None)


def _store(value: int, base: int, locate: Locate, c: Lowering, mask: int | None, add: bool) -> Step:
    strict = c.options.check_bounds

    def step(r: Frame) -> None:
        ref: Ref = r[base]
        try:
            view = ref.array[locate(r, ref)]
        except OutOfBounds:
            if strict:
                raise
            return
        write(r[0], ref, view, r[value], r[mask] if mask is not None else None, add)

    return step


def write(
    machine: Machine, ref: Ref, view: Array, value: Any, mask: Array | None, add: bool
) -> None:
    """Put a value into a view of a ref."""
    if ref.parent is not None:
        _write_recast(machine, ref, view, value, mask, add)
        return
    if add:
        machine.reading(ref, view)
        value = value + view
    buffer = ref.buffer
    if buffer.pending or buffer.readonly or buffer.defined is not None:
        machine.writing(ref, view, mask)
    if mask is None:
        view[...] = value
    else:
        np.copyto(view, value, where=mask)


def _write_recast(
    machine: Machine, ref: Ref, at: Array, value: Any, mask: Array | None, add: bool
) -> None:
    parent = ref.parent
    assert parent is not None
    machine.reading(ref, parent.array)
    machine.writing(ref, parent.array)
    flat = ref.reinterpreted()
    old = flat[at]
    new = value + old if add else value
    flat[at] = new if mask is None else np.where(mask, new, old)
    shape = recast(parent.array, parent.element, ref.element).shape
    parent.array[...] = recast(flat.reshape(shape), ref.element, parent.element)


@handles("vector.store", "tpu.strided_store", effect="write")
def store(op: Op, c: Lowering) -> Step:
    """Write a block, possibly with strides."""
    value, base = op.operands[:2]
    shape = c.type(value).shape
    locate = locator(op.operands[2:], shape, op.integers("strides"), c, base)
    return _store(value, base, locate, c, None, False)


@handles("tpu.vector_store", effect="write")
def masked_store(op: Op, c: Lowering) -> Step:
    """Write a block under an optional mask, optionally adding to what is there."""
    (value,), (base,), indices, masks = op.groups()
    shape = c.type(value).shape
    locate = locator(indices, shape, op.integers("strides"), c, base)
    return _store(value, base, locate, c, masks[0] if masks else None, op.flag("add"))


@handles("memref.load", effect="read")
def load_scalar(op: Op, c: Lowering) -> Step:
    """One element, from SMEM."""
    (o,), (base, *indices) = op.results, op.operands
    element = c.type(o).element
    if c.lanes:
        return _gather_lanes(o, base, indices)
    locate = locator(tuple(indices), (), (), c, base)

    def step(r: Frame) -> None:
        ref: Ref = r[base]
        at = locate(r, ref)
        if ref.parent is not None:
            raise Unsupported("a scalar load from a ref whose element type was reinterpreted")
        if ref.buffer.pending or ref.buffer.defined is not None:
            r[0].reading(ref, ref.array[(*at, ...)])
        r[o] = as_scalar(ref.array[at], element)

    return step


def _gather_lanes(o: int, base: int, indices: list[int]) -> Step:
    def step(r: Frame) -> None:
        ref: Ref = r[base]
        at = [np.asarray(r[i]) for i in indices]
        for axis, (lanes, extent) in enumerate(zip(at, ref.array.shape, strict=True)):
            if lanes.min(initial=0) < 0 or lanes.max(initial=0) >= extent:
                raise OutOfBounds(f"an element outside dimension {axis} of {ref.buffer.name}")
        r[o] = ref.array[tuple(at)]

    return step


@handles("memref.store", effect="write")
def store_scalar(op: Op, c: Lowering) -> Step:
    """Write one element, to SMEM."""
    value, base, *indices = op.operands
    if c.type(base).space not in ("smem", ""):
        raise Unsupported(f"a scalar store to {c.type(base).space}")
    locate = locator(tuple(indices), (), (), c, base)

    def step(r: Frame) -> None:
        ref: Ref = r[base]
        at = locate(r, ref)
        if ref.parent is not None:
            raise Unsupported("a scalar store to a ref whose element type was reinterpreted")
        buffer = ref.buffer
        if buffer.pending or buffer.readonly or buffer.defined is not None:
            r[0].writing(ref, ref.array[(*at, ...)])
        ref.array[at] = r[value]

    return step
