"""Answers LintRequest: tries to pass a task's own check with programs that skip its work.

Every shortcut is compared exactly as a candidate would be. What passes is a hole in the task: in
its inputs (an input that is always ones may be ignored) or in its tolerance.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np

from maxkernel.types.lint import LintResult, Shortcut
from maxkernel.types.messages import LintReply, LintRequest
from maxkernel.types.task import Tolerance
from maxkernel.worker.coarse import coarse_function
from maxkernel.worker.numerics import compare_with
from maxkernel.worker.reference import Prepared, prepare
from maxkernel.worker.samples import Sample, draw

Outputs = tuple[np.ndarray[Any, Any], ...]

OTHER_SEEDS = 2
"""Further draws that input-independent shortcuts may learn from."""


def lint_task(request: LintRequest) -> LintReply:
    """Tries every shortcut on inputs from `request.seed`. Raises Refused like a check."""
    prepared = prepare(request.task)
    others = [draw(prepared, request.seed + n) for n in range(1, OTHER_SEEDS + 1)]
    sample = draw(prepared, request.seed)
    attempts = [
        *_without_inputs(sample, others),
        *_with_less_input(prepared, sample, others[0]),
        *_coarse(prepared, sample),
    ]
    shortcuts = tuple(
        _judge(name, outputs, sample, request.tolerance) for name, outputs in attempts
    )
    return LintReply(LintResult(shortcuts))


def _without_inputs(sample: Sample, others: Sequence[Sample]) -> Iterator[tuple[str, Outputs]]:
    """Programs that never look at their inputs."""
    yield "zeros", tuple(np.zeros_like(r) for r in sample.reference)
    yield "constant", tuple(np.full_like(r, _mean(r)) for r in others[0].reference)
    pooled = [np.concatenate(rows) for rows in _by_output(others)]
    yield (
        "row mean",
        tuple(_row_mean(p, r) for p, r in zip(pooled, sample.reference, strict=True)),
    )
    yield "stale output", others[0].reference


def _with_less_input(
    prepared: Prepared, sample: Sample, other: Sample
) -> Iterator[tuple[str, Outputs]]:
    """The reference on inputs of which one is stale, or only half there."""
    for index, array in enumerate(sample.originals):
        stale = _replaced(sample, index, other.originals[index])
        yield f"ignores input {index}", _run(prepared, stale)
        if not np.issubdtype(array.dtype, np.integer) and array.dtype != bool:
            for axis in sorted({0, array.ndim - 1}) if array.ndim else ():
                if array.shape[axis] > 1:
                    half = _replaced(sample, index, _halved(array, axis))
                    yield f"half of input {index} along axis {axis}", _run(prepared, half)


def _coarse(prepared: Prepared, sample: Sample) -> Iterator[tuple[str, Outputs]]:
    """The reference with its products and sums accumulated in bf16, where it has any.

    Only a task with a float32 output promises more than bf16.
    """
    wide = any(spec.dtype == "float32" for spec in prepared.traced.outputs)
    function = coarse_function(prepared.traced.jaxpr) if wide else None
    if function is not None:
        yield "bf16 accumulation", _host(jax.jit(function)(*sample.originals))


def _judge(name: str, outputs: Outputs, sample: Sample, tolerance: Tolerance) -> Shortcut:
    found = [
        compare_with(mine.astype(truth.reference.dtype), truth)
        for mine, truth in zip(outputs, sample.truths(tolerance), strict=True)
    ]
    return Shortcut(
        name=name,
        passes=all(f.excess <= 1.0 and f.nonfinite == 0 for f in found),
        excess=max((f.excess for f in found), default=0.0),
        max_abs=max((f.max_abs for f in found), default=0.0),
    )


def _by_output(samples: Sequence[Sample]) -> list[list[np.ndarray[Any, Any]]]:
    return [
        [_rows(s.reference[index]) for s in samples] for index in range(len(samples[0].reference))
    ]


def _rows(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array.reshape(array.shape[0] if array.ndim else 1, -1).astype(np.float64)


def _row_mean(pool: np.ndarray[Any, Any], like: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    rows = like.shape[0] if like.ndim else 1
    return np.tile(pool.mean(axis=0), (rows, 1)).reshape(like.shape).astype(like.dtype)


def _mean(array: np.ndarray[Any, Any]) -> float:
    return float(array.astype(np.float64).mean())


def _halved(array: np.ndarray[Any, Any], axis: int) -> np.ndarray[Any, Any]:
    cut = array.copy()
    cut[(slice(None),) * axis + (slice(array.shape[axis] // 2, None),)] = 0
    return cut


def _replaced(sample: Sample, index: int, array: np.ndarray[Any, Any]) -> list[Any]:
    return [array if i == index else a for i, a in enumerate(sample.originals)]


def _run(prepared: Prepared, inputs: Sequence[Any]) -> Outputs:
    return _host(prepared.reference(*inputs))


def _host(results: Any) -> Outputs:
    return tuple(np.asarray(array) for array in jax.tree.leaves(results))
