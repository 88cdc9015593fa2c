"""Fits the clock's constants on measured times of microkernels. Pure arithmetic.

The simulator adds and compares multiples of four quantities: the length of a cycle, the latency
of a DMA, the transfer of a byte and the cost of a run. So a simulated time is their sum, each as
often as it lies on the critical path. These counts come from simulating the same program with one
constant changed (`work_of`), and the constants from a robust linear fit of the counts to the
measured times (`fit`): the exact solution of that choice of four rows from which most others are
least far away (least trimmed residuals), then least squares with Tukey's weights around it.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from typing import Literal

import msgspec

from maxkernel.types import Clock

ProblemKind = Literal["rows", "times", "undetermined", "spread"]
Vector = tuple[float, float, float, float]

FEWEST = 6
"""Rows that a fit needs at least."""
SHARE = 0.05
"""Of a row's time, from which a row tells something about a constant."""
WIDEST = 0.25
"""Typical relative residual above which the measurements do not fit the model at all."""
FARTHEST = 10.0
"""Factor between a fitted and the published constant above which the fit is not believed."""

_NAMES = ("clock rate", "latency", "bandwidth", "cost of a run")
_STEP = 1.01
_TUKEY = 4.685
"""Of Tukey's weights: residuals beyond so many standard deviations count nothing."""
_TRIMMED = 4
"""One of so many rows may lie anywhere."""
_LEAST_SPREAD = 1e-4
_STEPS = 30


class CalibrationError(Exception):
    """Measurements that no constants can be fitted on; the message says what is wrong with them.

    `kind` is `rows` (too few), `times` (one that is no positive number), `undetermined` (no two
    rows tell anything about a constant) or `spread` (the model does not fit them, or gives a
    constant that cannot be).
    """

    def __init__(self, kind: ProblemKind, message: str) -> None:
        super().__init__(message)
        self.kind: ProblemKind = kind


class Work(msgspec.Struct, frozen=True):
    """What lies on a program's critical path."""

    cycles: float
    latencies: float
    """DMAs whose latency is waited for."""
    bytes: float
    runs: float

    def seconds(self, clock: Clock) -> float:
        """The simulated time with these constants."""
        moved = self.bytes + clock.chunk_bytes * self.runs
        return self.cycles / clock.hz + self.latencies * clock.latency + moved / clock.bandwidth


class Row(msgspec.Struct, frozen=True):
    """A microkernel: its work, and what it took."""

    name: str
    kind: str
    work: Work
    measured: float
    """Seconds."""
    fits: bool = True
    """Whether constants are fitted on it; else it is only compared."""


class Residual(msgspec.Struct, frozen=True):
    """A row beside the fitted constants."""

    name: str
    ratio: float
    """Simulated / measured."""
    outlier: bool


class Fit(msgspec.Struct, frozen=True):
    """Fitted constants and how well they fit."""

    clock: Clock
    residual: float
    """Median relative residual of the rows fitted on."""
    expected_error: float
    """Relative error to expect of a further microkernel of these kinds: the rows' root mean square
    residual, for four fitted constants; what an outlier adds is bounded, not left out."""
    residuals: tuple[Residual, ...]


def probes(base: Clock) -> tuple[Clock, ...]:
    """The constants that a program must be simulated with for `work_of`.

    They differ little from `base`, so that the critical path stays the same.
    """
    return (
        base,
        msgspec.structs.replace(base, latency=_STEP * base.latency),
        msgspec.structs.replace(base, chunk_bytes=_STEP * base.chunk_bytes),
        msgspec.structs.replace(base, bandwidth=base.bandwidth / _STEP),
    )


def work_of(seconds: Sequence[float], base: Clock) -> Work:
    """The critical path of a program, from its simulated times with `probes(base)`."""
    whole, later, longer, slower = seconds
    step = _STEP - 1
    latencies = (later - whole) / (step * base.latency)
    runs = (longer - whole) * base.bandwidth / (step * base.chunk_bytes)
    moved = (slower - whole) * base.bandwidth / step
    rest = whole - latencies * base.latency - moved / base.bandwidth
    return Work(rest * base.hz, latencies, moved - base.chunk_bytes * runs, runs)


def fit(rows: Sequence[Row], base: Clock) -> Fit:
    """The constants that explain the measured times best. Raises CalibrationError."""
    used = [row for row in rows if row.fits]
    _check(rows, used, base)
    shares = [_shares(row.work, base) for row in used]
    times = [row.measured / sum(_parts(row.work, base)) for row in used]
    factors = _robust(shares, times)
    clock = _clock(factors, base)
    left = _residuals(shares, times, factors)
    spread = _spread(left)
    if spread > WIDEST:
        raise CalibrationError(
            "spread",
            f"measured times are typically {100 * spread:.0f} % away from the best constants",
        )
    bound = _TUKEY * spread
    residuals = tuple(_residual(row, clock, bound) for row in rows)
    strange = [residual.name for residual in residuals if residual.outlier]
    if len(strange) > max(1, len(used) // _TRIMMED):
        raise CalibrationError(
            "spread", f"{len(strange)} of {len(used)} times fit nothing: {', '.join(strange)}"
        )
    square = sum(min(abs(value), bound) ** 2 for value in left) / max(1, len(left) - 4)
    typical = statistics.median(abs(value) for value in left)
    return Fit(clock, typical, math.sqrt(square), residuals)


def _check(rows: Sequence[Row], used: Sequence[Row], base: Clock) -> None:
    for row in rows:
        if not (math.isfinite(row.measured) and row.measured > 0):
            raise CalibrationError("times", f"{row.name}: {row.measured} is no measured time")
    if len(used) < FEWEST:
        raise CalibrationError("rows", f"{len(used)} measured times; at least {FEWEST} are needed")
    for place, name in enumerate(_NAMES):
        telling = 0
        for row in used:
            parts = _parts(row.work, base)
            telling += parts[place] >= SHARE * sum(parts)
        if telling < 2:
            raise CalibrationError("undetermined", f"no two microkernels tell about the {name}")


def _parts(work: Work, base: Clock) -> Vector:
    """Seconds that the cycles, the latencies, the bytes and the runs take."""
    return (
        work.cycles / base.hz,
        work.latencies * base.latency,
        work.bytes / base.bandwidth,
        work.runs * base.chunk_bytes / base.bandwidth,
    )


def _shares(work: Work, base: Clock) -> Vector:
    """The same as shares of the whole."""
    parts = _parts(work, base)
    a, b, c, d = (part / sum(parts) for part in parts)
    return a, b, c, d


def _clock(factors: Vector, base: Clock) -> Clock:
    """Constants from the factors by which cycle, latency, byte and run are longer than `base`'s."""
    for name, factor in zip(_NAMES, factors, strict=True):
        if not 1 / FARTHEST < factor < FARTHEST:
            raise CalibrationError(
                "spread", f"the {name} would be {factor:.2g} times what is known: not believed"
            )
    cycle, latency, byte, run = factors
    return msgspec.structs.replace(
        base,
        hz=base.hz / cycle,
        bandwidth=base.bandwidth / byte,
        latency=base.latency * latency,
        chunk_bytes=base.chunk_bytes * run / byte,
    )


def _robust(rows: Sequence[Vector], times: Sequence[float]) -> Vector:
    """Factors x with rows @ x near `times`, whatever a few of them are."""
    factors = _start(rows, times)
    spread = _spread(_residuals(rows, times, factors))
    for _ in range(_STEPS):
        left = _residuals(rows, times, factors)
        far = [min(1.0, abs(value) / (_TUKEY * spread)) for value in left]
        weights = [((1 - x * x) / time) ** 2 for x, time in zip(far, times, strict=True)]
        found = _solve(rows, times, weights)
        if found is None:
            break
        factors = found
    return factors


def _start(rows: Sequence[Vector], times: Sequence[float]) -> Vector:
    """Of all exact solutions of four rows, the one from which most rows are least far away."""
    kept = len(rows) - max(1, len(rows) // _TRIMMED)
    best: Vector | None = None
    least = math.inf
    for places in itertools.combinations(range(len(rows)), 4):
        found = _solve([rows[i] for i in places], [times[i] for i in places], (1.0,) * 4)
        if found is None or not all(1 / FARTHEST < factor < FARTHEST for factor in found):
            continue
        left = sorted(abs(value) for value in _residuals(rows, times, found))
        if sum(left[:kept]) < least:
            best, least = found, sum(left[:kept])
    if best is None:
        raise CalibrationError("undetermined", "the rows do not tell the four constants apart")
    return best


def _residuals(rows: Sequence[Vector], times: Sequence[float], factors: Vector) -> list[float]:
    """How far off the fitted times are: logarithms of fitted / measured."""
    fitted = (sum(a * x for a, x in zip(row, factors, strict=True)) for row in rows)
    return [math.log(max(value, 1e-9) / time) for value, time in zip(fitted, times, strict=True)]


def _spread(left: Sequence[float]) -> float:
    """Standard deviation of the residuals from their median size, for 4 fitted constants."""
    freedom = math.sqrt(len(left) / max(1, len(left) - 4))
    return max(1.4826 * freedom * statistics.median(abs(value) for value in left), _LEAST_SPREAD)


def _solve(
    rows: Sequence[Vector], times: Sequence[float], weights: Sequence[float]
) -> Vector | None:
    """Weighted least squares of rows @ x = times; None where the rows do not determine x.

    Gaussian elimination of the normal equations.
    """
    items = list(zip(rows, times, weights, strict=True))
    table = [
        [*(sum(w * r[i] * r[j] for r, _, w in items) for j in range(4)),
         sum(w * r[i] * time for r, time, w in items)]
        for i in range(4)
    ]  # fmt: skip
    largest = max(max(line[:4]) for line in table)
    for i in range(4):
        pivot = max(range(i, 4), key=lambda place: abs(table[place][i]))
        table[i], table[pivot] = table[pivot], table[i]
        if abs(table[i][i]) < 1e-9 * largest:
            return None
        for other in range(4):
            if other != i:
                part = table[other][i] / table[i][i]
                table[other] = [a - part * b for a, b in zip(table[other], table[i], strict=True)]
    a, b, c, d = (table[i][4] / table[i][i] for i in range(4))
    return a, b, c, d


def _residual(row: Row, clock: Clock, bound: float) -> Residual:
    ratio = row.work.seconds(clock) / row.measured
    return Residual(row.name, ratio, row.fits and abs(ratio - 1) > max(bound, 0.02))
