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
NO_RATIO = 1e9
"""Stands for an excess without a finite ratio: an error where none is allowed."""

Floats = NDArray[np.float64]


def compare(
    candidate: NDArray[Any], reference: NDArray[Any], oracle: NDArray[Any], tolerance: Tolerance
) -> OutputError:
    """The errors of one output; `excess` covers both conditions.

    All three have the same shape; candidate and reference the output's dtype.
    """
    if candidate.dtype.kind in "biu" or candidate.dtype.name in ("int4", "uint4"):
        return _compare_exact(candidate, reference, oracle, tolerance)
    c, r, o = (np.asarray(a, np.float64).ravel() for a in (candidate, reference, oracle))
    nonfinite = 0
    usable = np.isfinite(o) & np.isfinite(r)
    if not (usable & np.isfinite(c)).all():
        nonfinite = int(np.count_nonzero(usable & ~np.isfinite(c)))
        nonfinite += _differ_where_nonfinite(c[~usable], r[~usable], o[~usable])
        usable &= np.isfinite(c)
        c, r, o = c[usable], r[usable], o[usable]
    error, own = np.abs(c - o), np.abs(r - o)
    spread = _rms(o - o.mean()) if o.size else 0.0
    excess, allowance = 0.0, 0.0
    if o.size:
        allowance = rms_allowance(own, o, spread, unit_roundoff(candidate.dtype), tolerance)
        allowed = tolerance.rtol * np.abs(o) + tolerance.atol
        np.maximum(allowed, REFERENCE_MAX_FACTOR * own.max(), out=allowed)
        rms_ratio = _ratio(np.array([_rms(error)]), np.array([allowance]))
        excess = max(_ratio(error, allowed), rms_ratio)
    return OutputError(
        max_abs=float(error.max(initial=0.0)),
        rms=_rms(error),
        reference_max_abs=float(own.max(initial=0.0)),
        reference_rms=_rms(own),
        spread=spread,
        excess=excess,
        nonfinite=nonfinite,
        elements=int(candidate.size),
        rms_allowance=allowance,
    )


def rms_allowance(
    own: Floats, oracle: Floats, spread: float, roundoff: float, tolerance: Tolerance
) -> float:
    """The right side of condition 2."""
    scale = _rms(oracle)
    s = spread if oracle.size > 1 and spread > roundoff * scale else scale
    declared = TOLERANCE_SHARE * (tolerance.atol + tolerance.rtol * scale)
    return max(
        REFERENCE_RMS_FACTOR * _rms(own),
        ROUNDOFF_UNITS * roundoff * s,
        min(declared, SPREAD_SHARE * s),
    )


def unit_roundoff(dtype: np.dtype[Any]) -> float:
    """Half the distance from 1 to the next larger number of a float dtype."""
    return float(cast(Any, ml_dtypes.finfo(dtype)).eps) / 2


def _compare_exact(
    candidate: NDArray[Any], reference: NDArray[Any], oracle: NDArray[Any], tolerance: Tolerance
) -> OutputError:
    c, r, o = (np.asarray(a).astype(np.float64).ravel() for a in (candidate, reference, oracle))
    error, own = np.abs(c - o), np.abs(r - o)
    slack = np.floor(tolerance.atol)
    wrong = int(np.count_nonzero((error > slack) & (c != r)))
    allowed = REFERENCE_MAX_FACTOR * int(np.count_nonzero(own))
    excess = wrong / allowed if allowed else (NO_RATIO if wrong else 0.0)
    return OutputError(
        max_abs=float(error.max(initial=0.0)),
        rms=_rms(error),
        reference_max_abs=float(own.max(initial=0.0)),
        reference_rms=_rms(own),
        spread=_rms(o - o.mean()) if o.size else 0.0,
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


def _rms(values: Floats) -> float:
    return float(np.sqrt(np.dot(values, values) / values.size)) if values.size else 0.0


def _ratio(error: Floats, allowed: Floats) -> float:
    with np.errstate(divide="ignore"):
        ratio = np.divide(error, allowed, out=np.zeros_like(error), where=error > 0)
    return float(min(ratio.max(), NO_RATIO))
