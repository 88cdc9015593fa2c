"""Which kernels matter: the program runs again with their results falsified.

Data flow alone cannot see a product with a zero that only data tell, or a branch never taken. A
kernel whose results can be anything without changing the outputs does no work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxkernel.worker import mosaic
from maxkernel.worker.failures import Refused
from maxkernel.worker.programs import Outputs, same_bits

KEPT_BYTES = 1 << 30
"""Most bytes of kernels' operands and results that a recording keeps."""
LOOKED_AT = 1024
"""Elements compared before the rest, to see that a result is no copy."""

Array = np.ndarray[Any, Any]
Instead = Callable[[int, Sequence[Array]], list[Array]]


@dataclass(frozen=True)
class Call:
    """One run of a kernel."""

    operands: tuple[Array, ...]
    results: tuple[Array, ...]


@dataclass(frozen=True)
class Recording:
    """An execution, with what went into every kernel and came out of it, in order."""

    outputs: Outputs
    calls: Mapping[int, Sequence[Call]]
    """By kernel; of a recording that is not `whole`, the first ones."""
    whole: bool
    copying: frozenset[int]
    """Kernels that only ever returned what they were given."""
    options: mosaic.Options


class _OtherPath(Exception):
    """A falsified result led the program along another path."""


def record(program: mosaic.Program, inputs: Sequence[Any], options: mosaic.Options) -> Recording:
    """Executes a program. Raises Refused for hazards and for what is not understood."""
    calls: dict[int, list[Call]] = {index: [] for index in range(len(program.kernels))}
    working: set[int] = set()
    kept, whole = 0, True

    def run(index: int, operands: Sequence[Array]) -> list[Array]:
        nonlocal kept, whole
        results = mosaic.launch(program.executable(index, options), operands).outputs
        if not all(any(_copies(a, result) for a in operands) for result in results):
            working.add(index)
        kept += sum(a.nbytes for a in (*operands, *results))
        whole &= kept <= KEPT_BYTES
        if whole or not calls[index]:
            calls[index].append(Call(tuple(operands), tuple(results)))
        return results

    outputs = _run(program, inputs, options, run)
    ran = {index for index, found in calls.items() if found}
    return Recording(outputs, calls, whole, frozenset(ran - working), options)


def mattering(
    program: mosaic.Program, inputs: Sequence[Any], recording: Recording
) -> frozenset[int]:
    """Indices of the kernels whose results the outputs change with."""
    ran = [index for index, calls in recording.calls.items() if calls]
    return frozenset(k for k in ran if _matters(program, inputs, recording, k))


def _matters(
    program: mosaic.Program, inputs: Sequence[Any], recording: Recording, index: int
) -> bool:
    replay = (
        _replaying(recording, index) if recording.whole else _running(program, recording, index)
    )
    try:
        outputs = _run(program, inputs, recording.options, replay)
    except (_OtherPath, Refused):
        return True
    pairs = zip(outputs, recording.outputs, strict=True)
    return not all(same_bits(a, b) for a, b in pairs)


def _replaying(recording: Recording, index: int) -> Instead:
    """Runs no kernel: one whose operands changed is taken to pass the change on."""
    left = {k: iter(calls) for k, calls in recording.calls.items()}

    def replay(k: int, operands: Sequence[Array]) -> list[Array]:
        call = _next(left[k])
        pairs = zip(operands, call.operands, strict=True)
        if k == index or not all(same_bits(a, b) for a, b in pairs):
            return [falsified(a) for a in call.results]
        return [*call.results]

    return replay


def _running(program: mosaic.Program, recording: Recording, index: int) -> Instead:
    """Runs every kernel anew, where a recording of all calls would be too large."""

    def run(k: int, operands: Sequence[Array]) -> list[Array]:
        found = mosaic.launch(program.executable(k, recording.options), operands).outputs
        return [falsified(a) for a in found] if k == index else found

    return run


def falsified(array: Array) -> Array:
    """Other values in another sense and, of floats, another order: neither sums nor maxima stay."""
    if array.dtype == np.bool_ or array.dtype.kind in "iu":
        return ~array
    moved = np.roll(array, 1)
    with np.errstate(all="ignore"):
        return (1.0 - 1.5 * np.nan_to_num(moved.astype(np.float32))).astype(array.dtype)


def _copies(operand: Array, result: Array) -> bool:
    if operand.shape != result.shape:
        return False
    first, second = operand.reshape(-1), result.reshape(-1)
    for part in (slice(0, LOOKED_AT), slice(LOOKED_AT, None)):
        a, b = first[part].astype(np.float32), second[part].astype(np.float32)
        if not np.array_equal(a, b, equal_nan=True):
            return False
    return True


def _next(calls: Iterator[Call]) -> Call:
    try:
        return next(calls)
    except StopIteration:
        raise _OtherPath from None


def _run(
    program: mosaic.Program, inputs: Sequence[Any], options: mosaic.Options, instead: Instead
) -> Outputs:
    def bound(index: int) -> Callable[[Sequence[Array]], list[Array]]:
        return lambda operands: instead(index, operands)

    kernels = {index: bound(index) for index in range(len(program.kernels))}
    try:
        return tuple(np.asarray(a) for a in mosaic.run(program, inputs, options, instead=kernels))
    except mosaic.MosaicError as error:
        if isinstance(error.__cause__, _OtherPath):
            raise error.__cause__ from None
        raise Refused(mosaic.failure_of(error)) from error
