"""From a numerical check to a failure in words."""

from __future__ import annotations

from maxkernel.types import Failure, Numerics, OutputError, Spot


def numerics_failure(numerics: Numerics) -> Failure | None:
    """Why a check did not pass; None when it did."""
    if numerics.passed:
        return None
    for trial in numerics.trials:
        if not (trial.passed or trial.skipped):
            how = f" ({trial.how})" if trial.how else ""
            return _worst(trial.outputs, numerics.oracle, f" on inputs `{trial.name}`{how}")
    return _worst(numerics.outputs, numerics.oracle, "")


def spot_failure(spot: Spot, differences: tuple[str, ...]) -> Failure | None:
    """Why a winner's spot check refuses it.

    Where the check was skipped, a full-size program that is another one than the checked one
    (`differences`) is refused: nobody has seen what it computes.
    """
    if spot.skipped:
        if not differences:
            return None
        return Failure(
            stage="check",
            kind="size_dependent",
            message=(
                "the full-size program is not the checked one up to sizes, and no spot check "
                f"was possible ({spot.skipped}); first difference: {differences[0]}"
            ),
            advice="write the kernel so that both sizes take the same path, or choose a check "
            "size with the same remainders as the full size",
        )
    return None if spot.passed else _worst(spot.outputs, "float32", " at full size")


def _worst(outputs: tuple[OutputError, ...], oracle: str, where: str) -> Failure:
    for index, output in enumerate(outputs):
        if output.nonfinite:
            return Failure(
                stage="check",
                kind="nonfinite",
                message=(
                    f"output {index}{where}: {output.nonfinite} of {output.elements} elements are "
                    "NaN or infinite where the oracle is finite"
                ),
                advice="look for unwritten blocks, reads of padding, 0/0, or a missing maximum",
            )
    index, worst = max(enumerate(outputs), key=lambda pair: pair[1].excess)
    return Failure(
        stage="check",
        kind="mismatch",
        message=(
            f"output {index}{where}: error max {worst.max_abs:.3g}, RMS {worst.rms:.3g} against "
            f"the {oracle} oracle; the reference itself has max {worst.reference_max_abs:.3g}, "
            f"RMS {worst.reference_rms:.3g}; {worst.excess:.3g}x the allowance"
        ),
        advice="compare block by block; check masks of edge blocks, accumulator dtype and init",
    )
