"""Which calibration of the clock holds for a target and the workers' compiler."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec

from maxkernel.config import Settings
from maxkernel.schedule.calibrated import OFF, calibration_for, read_calibration
from maxkernel.targets import TARGETS, Target
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


def clock_version(calibration: Calibration | None) -> dict[str, str]:
    """A version by which runs and tables know calibrated constants; empty for published ones."""
    if calibration is None or calibration.clock is None:
        return {}
    digest = hashlib.sha256(msgspec.json.encode(calibration.clock)).hexdigest()
    return {"clock": f"calibrated-{digest[:12]}"}


def calibrations_found(settings: Settings, versions: Mapping[str, str]) -> list[Calibration]:
    """What the user's calibration files mean, one for each target that there is a file for.

    Raises UsageError for a broken file, or a missing one that the settings name.
    """
    targets = list(TARGETS.values())
    if settings.calibration and settings.calibration != OFF:
        own = read_calibration(settings.calibration_path).target
        targets = [TARGETS[own]] if own in TARGETS else targets[:1]
    found = (calibration_in_force(settings, target, versions) for target in targets)
    return [calibration for calibration in found if calibration is not None]
