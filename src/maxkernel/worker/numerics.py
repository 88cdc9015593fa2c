"""Compares a candidate's outputs with the oracle's, beside the reference's own errors.

Two conditions, both needed; `o` is the oracle (float64), `r` the reference, `c` the candidate:

1. Every element: |c - o| <= max(atol + rtol |o|, 3 max|r - o|).
2. In RMS: rms(c - o) <= max(4 rms(r - o), 2 u s, min(0.3 (atol + rtol rms(o)), s / 100)),
   with u the unit roundoff of the output's dtype and s the spread, i.e. the RMS of the oracle
   around its mean (for an output without spread, such as a scalar, the RMS of the oracle).

The first is the task's tolerance, with room for the noise of the reference itself. The second
keeps out what hides inside a loose tolerance: a constant, the mean or zeros have an RMS error of
the spread itself, a hundred times the cap. Its terms: another order of summation is honestly a
few times worse than the reference's; a reference that is exact must not demand bit equality; and
a task that allows much lets rounding to a smaller type pass (bf16 operands in a float32 product
have an error of about s / 500).

Integers and booleans must equal the oracle or the reference. Elements that equal neither may be
at most three times as many as those in which the reference differs from the oracle (near ties),
or differ by at most atol where the task gives an atol of 1 or more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from maxkernel.types.evaluation import OutputError
from maxkernel.types.task import Tolerance

REFERENCE_MAX_FACTOR = 3.0
REFERENCE_RMS_FACTOR = 4.0
ROUNDOFF_UNITS = 2.0
TOLERANCE_SHARE = 0.3
SPREAD_SHARE = 0.01
MEANINGLESS_SHARE = 1 / 8
"""Of the output's spread: a reference, or inputs, less certain than this tell nothing."""
NO_RATIO = 1e9
"""Stands for an excess without a finite ratio: an error where none is allowed."""

PIECE = 1 << 13
"""Elements that are worked on at a time: their intermediate results stay in a core's own cache,
and BLAS, which wakes all its threads for a longer dot product, takes none."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Truth:
    """What one output is compared with, and what it may differ by: the same for every candidate."""

    reference: NDArray[Any]
    oracle: Floats
    """Flat; only the elements where reference and oracle are finite when not all are."""
    usable: NDArray[np.bool_] | None
    """Where both are finite; None: everywhere."""
    strange: tuple[Floats, Floats]
    """Reference and oracle where either is not finite."""
    tolerance: Tolerance
    own_max: float
    own_rms: float
    own_wrong: int
    """Elements in which the reference differs from the oracle; counts for integers only."""
    spread: float
    scale: float
    """RMS of the oracle."""
    rms_allowance: float

    @property
    def exact(self) -> bool:
        """Integers and booleans, which must be equal."""
        return _is_exact(self.reference.dtype)

    def meaningless(self) -> str:
        """Why a comparison on these inputs would tell nothing; empty where it does."""
        if self.exact:
            many = self.own_wrong > MEANINGLESS_SHARE * self.reference.size
            return "rounding the inputs changes many of the integers" if many else ""
        if self.usable is not None:
            return "the reference is not finite on it"
        if self.scale == 0:
            return "the result is zero everywhere"
        if self.own_rms > MEANINGLESS_SHARE * self._spread_or_scale:
            return "the reference's own error, or that of rounded inputs, is as large as the result"
        return ""

    @property
    def _spread_or_scale(self) -> float:
        roundoff = unit_roundoff(self.reference.dtype)
        spread = self.oracle.size > 1 and self.spread > roundoff * self.scale
        return self.spread if spread else self.scale


def truth_of(
    reference: NDArray[Any],
    oracle: NDArray[Any],
    tolerance: Tolerance,
    noise: NDArray[Any] | None = None,
) -> Truth:
    """The truth of one output.

    `noise`, if given, is the oracle on inputs that were rounded once more: a program that is as
    good as its inputs may be off by as much, so it counts like an error of the reference's own.
    All have one shape; the reference has the output's dtype.
    """
    r, o = reference.ravel(), np.asarray(oracle, np.float64).ravel()
    n = None if noise is None else noise.ravel()
    usable, strange = None, (o[:0], o[:0])
    if not _is_exact(reference.dtype) and not (_all_finite(o) and _all_finite(r)):
        r = np.asarray(r, np.float64)
        usable = np.isfinite(o) & np.isfinite(r)
        strange = (r[~usable], o[~usable])
        r, o, n = r[usable], o[usable], n if n is None else n[usable]
    own = _own_errors(r, o, n)
    spread = _rms(o, float(o.mean())) if o.size else 0.0
    allowance = 0.0
    if o.size and not _is_exact(reference.dtype):
        allowance = rms_allowance(own.rms, o, spread, unit_roundoff(reference.dtype), tolerance)
    return Truth(
        reference=reference,
        oracle=o,
        usable=usable,
        strange=strange,
        tolerance=tolerance,
        own_max=own.largest,
        own_rms=own.rms,
        own_wrong=own.wrong,
        spread=spread,
        scale=_rms(o),
        rms_allowance=allowance,
    )


def compare(
    candidate: NDArray[Any], reference: NDArray[Any], oracle: NDArray[Any], tolerance: Tolerance
) -> OutputError:
    """The errors of one output; `excess` covers both conditions.

    All three have the same shape; candidate and reference the output's dtype.
    """
    return compare_with(candidate, truth_of(reference, oracle, tolerance))


def compare_with(candidate: NDArray[Any], truth: Truth) -> OutputError:
    """As `compare`, with what several candidates share computed once."""
    if truth.exact:
        return _compare_exact(candidate, truth)
    c, nonfinite = candidate.ravel(), 0
    if truth.usable is not None:
        c = np.asarray(c, np.float64)
        nonfinite = _differ_where_nonfinite(c[~truth.usable], *truth.strange)
        c = c[truth.usable]
    errors, excess = _Errors(), 0.0
    for piece in _pieces(c.size):
        mine, true = np.asarray(c[piece], np.float64), truth.oracle[piece]
        finite = np.isfinite(mine)
        if not finite.all():
            nonfinite += int(np.count_nonzero(~finite))
            mine, true = mine[finite], true[finite]
        error = np.abs(mine - true)
        errors.add(error)
        allowed = truth.tolerance.rtol * np.abs(true) + truth.tolerance.atol
        np.maximum(allowed, REFERENCE_MAX_FACTOR * truth.own_max, out=allowed)
        excess = max(excess, _ratio(error, allowed))
    allowance = truth.rms_allowance if errors.count else 0.0
    if errors.count:
        excess = max(excess, _ratio(np.array([errors.rms]), np.array([allowance])))
    return OutputError(
        max_abs=errors.largest,
        rms=errors.rms,
        reference_max_abs=truth.own_max,
        reference_rms=truth.own_rms,
        spread=truth.spread,
        excess=excess,
        nonfinite=nonfinite,
        elements=int(candidate.size),
        rms_allowance=allowance,
    )


def rms_allowance(
    own_rms: float, oracle: Floats, spread: float, roundoff: float, tolerance: Tolerance
) -> float:
    """The right side of condition 2."""
    scale = _rms(oracle)
    s = spread if oracle.size > 1 and spread > roundoff * scale else scale
    declared = TOLERANCE_SHARE * (tolerance.atol + tolerance.rtol * scale)
    return max(
        REFERENCE_RMS_FACTOR * own_rms,
        ROUNDOFF_UNITS * roundoff * s,
        min(declared, SPREAD_SHARE * s),
    )


def unit_roundoff(dtype: np.dtype[Any]) -> float:
    """Half the distance from 1 to the next larger number of a float dtype."""
    return float(cast(Any, ml_dtypes.finfo(dtype)).eps) / 2


def _is_exact(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "biu" or dtype.name in ("int4", "uint4")


def _compare_exact(candidate: NDArray[Any], truth: Truth) -> OutputError:
    c, r = (np.asarray(a).astype(np.float64).ravel() for a in (candidate, truth.reference))
    error = np.abs(c - truth.oracle)
    slack = np.floor(truth.tolerance.atol)
    wrong = int(np.count_nonzero((error > slack) & (c != r)))
    allowed = REFERENCE_MAX_FACTOR * truth.own_wrong
    excess = wrong / allowed if allowed else (NO_RATIO if wrong else 0.0)
    return OutputError(
        max_abs=float(error.max(initial=0.0)),
        rms=_rms(error),
        reference_max_abs=truth.own_max,
        reference_rms=truth.own_rms,
        spread=truth.spread,
        excess=excess,
        nonfinite=0,
        elements=int(candidate.size),
    )


def _differ_where_nonfinite(c: Floats, r: Floats, o: Floats) -> int:
    """Elements whose class (NaN, +inf, -inf) is neither the reference's nor the oracle's.

    Used where oracle or reference is not finite: a float32 overflow in the reference is allowed
    to be an overflow, or the finite value that the oracle found.
    """

    def alike(a: Floats, b: Floats) -> NDArray[np.bool_]:
        both_finite = np.isfinite(a) & np.isfinite(b)
        return (np.isnan(a) & np.isnan(b)) | (a == b) | both_finite

    return int(np.count_nonzero(~(alike(c, r) | alike(c, o))))


class _Errors:
    """Of some elements: how many, the largest error, how many are no zeros, and the RMS."""

    def __init__(self) -> None:
        self.count = 0
        self.largest = 0.0
        self.wrong = 0
        self._squares = 0.0

    def add(self, error: Floats) -> None:
        """Some more, none of them negative."""
        self.count += error.size
        self.largest = max(self.largest, float(error.max(initial=0.0)))
        self.wrong += int(np.count_nonzero(error))
        self._squares += float(np.dot(error, error))

    @property
    def rms(self) -> float:
        """0 of none."""
        return math.sqrt(self._squares / self.count) if self.count else 0.0


def _own_errors(r: NDArray[Any], o: Floats, noise: NDArray[Any] | None) -> _Errors:
    """The reference's, or those of rounded inputs where they are larger."""
    found = _Errors()
    for piece in _pieces(o.size):
        own = np.abs(np.asarray(r[piece], np.float64) - o[piece])
        if noise is not None:
            own = np.fmax(own, np.abs(np.asarray(noise[piece], np.float64) - o[piece]))
        found.add(own)
    return found


def _pieces(size: int) -> Iterator[slice]:
    return (slice(start, start + PIECE) for start in range(0, size, PIECE))


def _all_finite(values: NDArray[Any]) -> bool:
    pieces = _pieces(values.size)
    return all(bool(np.isfinite(np.asarray(values[p], np.float64)).all()) for p in pieces)


def _rms(values: Floats, around: float = 0.0) -> float:
    found = _Errors()
    for piece in _pieces(values.size):
        found.add(np.abs(values[piece] - around))
    return found.rms


def _ratio(error: Floats, allowed: Floats) -> float:
    if allowed.min(initial=1.0) > 0:
        return float(min((error / allowed).max(initial=0.0), NO_RATIO))
    with np.errstate(divide="ignore"):
        ratio = np.divide(error, allowed, out=np.zeros_like(error), where=error > 0)
    return float(min(ratio.max(), NO_RATIO))
