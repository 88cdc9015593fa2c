"""Which calibration of the clock holds for a target and the workers' compiler."""

from __future__ import annotations

from collections.abc import Mapping

from maxkernel.config import Settings
from maxkernel.schedule.calibrated import calibration_for
from maxkernel.targets import Target
from maxkernel.types import Calibration


def calibration_in_force(
    settings: Settings, target: Target, versions: Mapping[str, str]
) -> Calibration | None:
    """The user's calibration, or why there is one that is not used; None where there is none.

    `versions` are the workers'. Raises UsageError for a broken file, or a missing one that the
    settings name.
    """
    compiler = f"jax {versions['jax']}, libtpu {versions['libtpu']}"
    return calibration_for(settings.calibration, settings.calibration_path, target, compiler)
