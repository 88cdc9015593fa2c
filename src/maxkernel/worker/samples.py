"""Inputs to check on, with what reference and oracle make of them, kept for the next candidate."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

from maxkernel.types.evaluation import Distribution
from maxkernel.types.search import InputCase
from maxkernel.types.task import Tolerance
from maxkernel.worker.arguments import Arguments
from maxkernel.worker.cases import make_case
from maxkernel.worker.distributions import Draws, Made, is_data, make, strengths
from maxkernel.worker.failures import refuse, task_failure
from maxkernel.worker.numerics import Truth, truth_of
from maxkernel.worker.reference import Prepared

KEPT_BYTES = 512 << 20
"""Most bytes of samples that a worker keeps; the oldest go first."""
OTHER_DRAWS = 2
"""Further draws that show what holds in every draw of a task."""
ROUNDED_SHARE = 0.25
"""Share of elements that are moved to a neighbouring number to see what rounding does.

A step is one to two units of rounding, so that the mean square change is about one unit.
"""

Array = np.ndarray[Any, Any]


@dataclass(eq=False)
class Sample:
    """Inputs of one seed, with what reference and oracle make of them."""

    seed: int
    inputs: tuple[Any, ...]
    originals: tuple[Array, ...]
    reference: tuple[Array, ...]
    oracle: tuple[Array, ...]
    noise: tuple[Array, ...] | None = None
    """The oracle on inputs that were rounded once more; None for the task's own draws."""
    how: str = ""
    _truths: dict[Tolerance, tuple[Truth, ...]] = field(
        default_factory=dict[Tolerance, tuple[Truth, ...]]
    )

    def truths(self, tolerance: Tolerance) -> tuple[Truth, ...]:
        """What each output is compared with."""
        if tolerance not in self._truths:
            noises = self.noise or (None,) * len(self.reference)
            self._truths[tolerance] = tuple(
                truth_of(reference, oracle, tolerance, noise)
                for reference, oracle, noise in zip(
                    self.reference, self.oracle, noises, strict=True
                )
            )
        return self._truths[tolerance]

    @property
    def nbytes(self) -> int:
        """Memory held, by estimate: arrays as they are and as float64."""
        arrays = (*self.reference, *self.oracle, *(self.noise or ()))
        return 2 * sum(a.nbytes for a in self.originals) + sum(
            a.nbytes + 8 * a.size for a in arrays
        )


@dataclass(frozen=True)
class Skipped:
    """Inputs that tell nothing about this task."""

    why: str
    nbytes: int = 0


_kept: dict[tuple[str, int, str], Sample | Skipped] = {}


def draw(prepared: Prepared, seed: int) -> Sample:
    """The task's own inputs from `seed`. Raises Refused, kinds `inputs` and `reference`."""
    found = _remembered(prepared, seed, "", lambda: _own(prepared, seed))
    assert isinstance(found, Sample)
    return found


def further(prepared: Prepared, seed: int, wanted: Distribution | InputCase) -> Sample | Skipped:
    """Inputs of another distribution, or that a tester thought of, made from the draw of `seed`."""
    return _remembered(prepared, seed, repr(wanted), lambda: _made(prepared, seed, wanted))


def _remembered(
    prepared: Prepared, seed: int, name: str, making: Callable[[], Sample | Skipped]
) -> Sample | Skipped:
    digest = prepared.module.task.digest
    key = (digest, seed, name)
    if key not in _kept:
        found = making()
        for other in [k for k in _kept if k[0] != digest]:
            del _kept[other]
        while _kept and found.nbytes + sum(s.nbytes for s in _kept.values()) > KEPT_BYTES:
            del _kept[next(iter(_kept))]
        _kept[key] = found
    return _kept[key]


def _own(prepared: Prepared, seed: int) -> Sample:
    arguments = prepared.draw(seed)
    _require_same(prepared, arguments)
    return _evaluated(prepared, seed, arguments.arrays)


def _made(prepared: Prepared, seed: int, wanted: Distribution | InputCase) -> Sample | Skipped:
    own = draw(prepared, seed)
    name = wanted if isinstance(wanted, str) else repr(wanted)
    why = "no input that it applies to"
    for strength in strengths(wanted) if isinstance(wanted, str) else (0,):
        rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
        draws = Draws(own.originals, _others(prepared, seed), prepared.uses)
        made = (
            make(wanted, draws, strength, rng)
            if isinstance(wanted, str)
            else make_case(wanted, draws, rng)
        )
        if not made.changed:
            break
        sample = _with_noise(prepared, seed, made, rng)
        why = _meaningless(prepared, own, sample)
        if not why:
            return sample
    return Skipped(why)


def _others(prepared: Prepared, seed: int) -> list[tuple[Array, ...]]:
    """Further draws, of use for integers only: without any, none are made."""
    if not any(use.indexes or use.bounds for use in prepared.uses):
        return []
    return [draw(prepared, seed + n).originals for n in range(1, OTHER_DRAWS + 1)]


def _with_noise(prepared: Prepared, seed: int, made: Made, rng: np.random.Generator) -> Sample:
    arrays = tuple(jnp.asarray(array) for array in made.arrays)
    sample = _evaluated(prepared, seed, arrays)
    coarse = prepared.f32_matmul == "exact"
    rounded = [
        _rounded(array, coarse, rng) if is_data(array, use) else array
        for array, use in zip(made.arrays, prepared.uses, strict=True)
    ]
    sample.noise = _oracle(prepared, rounded)
    sample.how = made.how
    return sample


def _meaningless(prepared: Prepared, own: Sample, sample: Sample) -> str:
    tolerance = prepared.module.tolerance
    for before, now in zip(own.truths(tolerance), sample.truths(tolerance), strict=True):
        why = now.meaningless()
        if why and not (now.usable is not None and before.usable is not None):
            return why
    return ""


def _rounded(array: Array, coarse: bool, rng: np.random.Generator) -> Array:
    """Values moved by about a unit of rounding: of bf16 where products round f32 to it."""
    if array.dtype == np.float32 and coarse:
        return array.astype(ml_dtypes.bfloat16).astype(np.float32)
    if array.dtype.name not in ("float32", "bfloat16", "float16"):
        return array
    words = array.view(np.dtype(f"i{array.itemsize}"))
    step = np.where(rng.random(array.shape) < 0.5, 1, -1).astype(words.dtype)
    wide = array.astype(np.float32)
    movable = np.isfinite(wide) & (np.abs(wide) > 2 * float(_tiny(array.dtype)))
    chosen = movable & (rng.random(array.shape) < ROUNDED_SHARE)
    moved = np.where(chosen, words + step, words).view(array.dtype)
    return np.where(np.isfinite(moved.astype(np.float32)), moved, array)


def _tiny(dtype: np.dtype[Any]) -> Any:
    limits: Any = ml_dtypes.finfo(dtype)
    return limits.tiny


def _evaluated(prepared: Prepared, seed: int, arrays: Sequence[Any]) -> Sample:
    module = prepared.module
    try:
        reference = _host(prepared.reference(*arrays))
    except Exception as error:
        raise task_failure(error, module.task, "the reference failed", "reference") from error
    oracle = _oracle(prepared, arrays)
    originals = tuple(np.array(array) for array in arrays)
    return Sample(seed, tuple(arrays), originals, reference, oracle)


def _oracle(prepared: Prepared, arrays: Sequence[Any]) -> tuple[Array, ...]:
    try:
        with jax.enable_x64(prepared.precision == "float64"):
            return _host(prepared.oracle(*arrays))
    except Exception as error:
        task = prepared.module.task
        raise task_failure(error, task, "the reference failed", "reference") from error


def _require_same(prepared: Prepared, arguments: Arguments) -> None:
    expected = prepared.traced.arguments
    if arguments.specs != expected.specs or arguments.statics != expected.statics:
        refuse(
            "check",
            "inputs",
            f"{prepared.module.task.name}: another seed gives inputs of other shapes or scalars",
            "only the values may depend on the key",
        )


def _host(results: Any) -> tuple[Array, ...]:
    return tuple(np.asarray(array) for array in jax.tree.leaves(results))
