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

Array = np.ndarray[Any, Any]
Instead = Callable[[Sequence[Array]], list[Array]]


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


class _OtherPath(Exception):
    """A falsified result led the program along another path."""


def record(
    program: mosaic.Program, inputs: Sequence[Any], options: mosaic.Options | None = None
) -> Recording:
    """Executes a program. Raises Refused for hazards and for what is not understood."""
    chosen = options or mosaic.Options()
    calls: dict[int, list[Call]] = {index: [] for index in range(len(program.kernels))}

    def run(index: int, operands: Sequence[Array]) -> list[Array]:
        results = mosaic.launch(program.executable(index, chosen), operands).outputs
        calls[index].append(Call(tuple(operands), tuple(results)))
        return results

    outputs = _run(program, inputs, chosen, {k: _bound(run, k) for k in calls})
    return Recording(outputs, calls)


def mattering(
    program: mosaic.Program, inputs: Sequence[Any], recording: Recording
) -> frozenset[int]:
    """Indices of the kernels whose results the outputs change with."""
    ran = [index for index, calls in recording.calls.items() if calls]
    return frozenset(k for k in ran if _matters(program, inputs, recording, k))


def copying(recording: Recording) -> frozenset[int]:
    """Indices of the kernels that only ever returned what they were given."""
    return frozenset(
        index
        for index, calls in recording.calls.items()
        if calls and all(_copies(call) for call in calls)
    )


def _matters(
    program: mosaic.Program, inputs: Sequence[Any], recording: Recording, index: int
) -> bool:
    """Runs no kernel: one whose operands changed is taken to pass the change on."""
    left = {k: iter(calls) for k, calls in recording.calls.items()}

    def replay(k: int, operands: Sequence[Array]) -> list[Array]:
        call = _next(left[k])
        pairs = zip(operands, call.operands, strict=True)
        if k == index or not all(same_bits(a, b) for a, b in pairs):
            return [falsified(a) for a in call.results]
        return [*call.results]

    try:
        outputs = _run(
            program, inputs, mosaic.Options(), {k: _bound(replay, k) for k in recording.calls}
        )
    except (_OtherPath, Refused):
        return True
    pairs = zip(outputs, recording.outputs, strict=True)
    return not all(same_bits(a, b) for a, b in pairs)


def falsified(array: Array) -> Array:
    """Other values in another order and sense, so that neither sums nor maxima stay."""
    moved = np.roll(array, 1)
    if array.dtype == np.bool_ or array.dtype.kind in "iu":
        return ~moved
    with np.errstate(all="ignore"):
        return (1.0 - 1.5 * np.nan_to_num(moved.astype(np.float32))).astype(array.dtype)


def _copies(call: Call) -> bool:
    return all(
        any(
            a.shape == result.shape
            and np.array_equal(a.astype(np.float64), result.astype(np.float64), equal_nan=True)
            for a in call.operands
        )
        for result in call.results
    )


def _next(calls: Iterator[Call]) -> Call:
    try:
        return next(calls)
    except StopIteration:
        raise _OtherPath from None


def _bound(function: Callable[[int, Sequence[Array]], list[Array]], index: int) -> Instead:
    return lambda operands: function(index, operands)


def _run(
    program: mosaic.Program,
    inputs: Sequence[Any],
    options: mosaic.Options,
    instead: Mapping[int, Instead],
) -> Outputs:
    try:
        found = mosaic.run(program, inputs, options, instead=instead)
        return tuple(np.asarray(a) for a in found)
    except mosaic.MosaicError as error:
        if isinstance(error.__cause__, _OtherPath):
            raise error.__cause__ from None
        raise Refused(mosaic.failure_of(error)) from error
