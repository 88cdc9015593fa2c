"""From a numerical check to a failure in words."""

from __future__ import annotations

from maxkernel.types import Failure, Numerics


def numerics_failure(numerics: Numerics) -> Failure | None:
    """Why a check did not pass; None when it did."""
    if numerics.passed:
        return None
    for index, output in enumerate(numerics.outputs):
        if output.nonfinite:
            return Failure(
                stage="check",
                kind="nonfinite",
                message=(
                    f"output {index}: {output.nonfinite} of {output.elements} elements are NaN or "
                    "infinite where the oracle is finite"
                ),
                advice="look for unwritten blocks, reads of padding, 0/0, or a missing maximum",
            )
    index, worst = max(enumerate(numerics.outputs), key=lambda pair: pair[1].excess)
    return Failure(
        stage="check",
        kind="mismatch",
        message=(
            f"output {index}: error max {worst.max_abs:.3g}, RMS {worst.rms:.3g} against the "
            f"{numerics.oracle} oracle; the reference itself has max "
            f"{worst.reference_max_abs:.3g}, RMS {worst.reference_rms:.3g}; "
            f"{worst.excess:.3g}x the allowance"
        ),
        advice="compare block by block; check masks of edge blocks, accumulator dtype and init",
    )
