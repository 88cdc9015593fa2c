"""What a program's time depends on in its inputs: the small integers, drawn and computed.

Values come from the task's own full-size inputs, drawn from published seeds, and from the very
program that is compiled. The candidate's process has no part in it.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.export
import numpy as np

from maxkernel.schedule import KernelOperands, Known, ScalarOperand
from maxkernel.types.task import Task
from maxkernel.worker.arguments import drawing, draws_apart
from maxkernel.worker.failures import Refused
from maxkernel.worker.mosaic.errors import MosaicError
from maxkernel.worker.operand_types import ELEMENTS_LIMIT
from maxkernel.worker.slices import Slice, slice_program
from maxkernel.worker.task_module import load

BYTES_LIMIT = 2 << 30
"""Inputs that are drawn for the sake of the clock."""
PEAK_LIMIT = 8 << 30
"""Memory in which they are drawn: two thirds of what a worker has by default."""

KEPT_LIMIT = 256 << 20
"""Bytes of drawn inputs that a worker keeps, those of three seeds at least: the next candidate of
the task needs them again."""

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Data:
    """What is known of a program's data for each seed, and what is not, in words."""

    draws: dict[int, Known]
    notes: tuple[str, ...] = ()


def scalars_of(exported: jax.export.Exported, task: Task, seeds: Sequence[int]) -> Data:
    """The small integer inputs of a program and operands of its kernels. Never raises.

    `draws` is empty for a program without any. What cannot be known is said in `notes`.
    """
    try:
        return _scalars(exported, task, tuple(seeds))
    except (MosaicError, Refused) as error:
        return Data({}, (f"data: not looked at: {error}",))
    except Exception as error:
        return Data({}, (f"data: not looked at: {type(error).__name__}: {str(error)[:200]}",))


def _scalars(exported: jax.export.Exported, task: Task, seeds: tuple[int, ...]) -> Data:
    small = [index for index, aval in enumerate(exported.in_avals) if _small_integer(aval)]
    sliced = _sliced(exported)
    wanted = sorted({*small, *(sliced.inputs if sliced else ())})
    calls = [call for call in sliced.calls if call.roots] if sliced else []
    if not wanted and not calls:
        return Data({}, sliced.unknown if sliced else ())
    module = load(task)
    together = not draws_apart(module, module.full, "inputs")
    asked = range(len(exported.in_avals)) if together else wanted
    needed = sum(_bytes(exported.in_avals[index]) for index in asked)
    if needed > BYTES_LIMIT:
        text = f"drawing the inputs that steer the kernels takes {needed / 2**30:.1f} GiB"
        return Data({}, (f"data: {text}",))
    draws: dict[int, Known] = {}
    for seed in seeds:
        arrays = drawn(task, seed, tuple(wanted))
        parameters = {index: _operand(arrays[index]) for index in small}
        draws[seed] = Known(_kernels(sliced, arrays), parameters)
    return Data(draws, sliced.unknown if sliced else ())


def _sliced(exported: jax.export.Exported) -> Slice | None:
    """The slice of a program that has kernels, or ragged products."""
    text = exported.mlir_module_serialized
    if b"tpu_custom_call" not in text and b"ragged_dot" not in text:
        return None
    return slice_program(exported)


def _kernels(sliced: Slice | None, arrays: dict[int, Array]) -> tuple[KernelOperands, ...]:
    if sliced is None:
        return ()
    values = sliced.run([arrays[index] for index in sliced.inputs])
    return tuple(
        KernelOperands(
            call.name,
            {place: _operand(values[root]) for place, root in call.roots.items()},
            call.signature,
        )
        for call in sliced.calls
    )


_kept: dict[tuple[str, int, tuple[int, ...]], dict[int, Array]] = {}


def drawn(task: Task, seed: int, wanted: tuple[int, ...]) -> dict[int, Array]:
    """Some of the task's full-size inputs for a seed, by position; the last small ones are kept."""
    key = (task.digest, seed, wanted)
    if key in _kept:
        return _kept[key]
    module = load(task)
    arrays = drawing(module, module.full, "inputs", wanted, PEAK_LIMIT)(seed).arrays
    found = {index: np.asarray(array) for index, array in zip(wanted, arrays, strict=True)}
    size = _held(found)
    if 3 * size <= KEPT_LIMIT:
        while _kept and size + sum(map(_held, _kept.values())) > KEPT_LIMIT:
            _kept.pop(next(iter(_kept)))
        _kept[key] = found
    return found


def _held(arrays: dict[int, Array]) -> int:
    return sum(array.nbytes for array in arrays.values())


def _small_integer(aval: Any) -> bool:
    kind = np.dtype(aval.dtype)
    whole = kind.kind in "iub" or kind.name in ("int4", "uint4")
    return whole and math.prod(aval.shape) <= ELEMENTS_LIMIT


def _bytes(aval: Any) -> int:
    return math.prod(aval.shape) * np.dtype(aval.dtype).itemsize


def _operand(array: Array) -> ScalarOperand:
    if array.dtype == np.float32:
        array = array.view(np.int32)
        return ScalarOperand(tuple(array.shape), "float32", tuple(array.ravel().tolist()))
    values = tuple(int(value) for value in array.astype(np.int64).ravel())
    return ScalarOperand(tuple(array.shape), array.dtype.name, values)
