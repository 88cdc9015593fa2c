"""The calibration file: constants of the clock as measured, for one device and compiler."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Literal

import msgspec

from maxkernel.errors import UsageError
from maxkernel.targets import Target
from maxkernel.types import Calibration, Clock

OFF = "off"
"""Instead of a file's path: only published constants are used."""
_AGAIN = "run `maxkernel calibrate` on a TPU host, or set `calibration` to `off`"


class FileRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A microkernel as it was measured."""

    name: str
    kind: str
    measured: float
    """Seconds, median."""
    ratio: float
    """Simulated with the file's constants / measured."""
    fitted: bool
    """Whether the constants were fitted on it."""
    outlier: bool = False


class CalibrationFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `maxkernel calibrate` writes."""

    format: Literal["maxkernel-calibration-1"]
    target: str
    device: str
    """As jax calls it."""
    compiler: str
    """Versions of jax and libtpu."""
    date: str
    clock: Clock
    residual: float
    """Median relative residual of the fitted rows."""
    expected_error: float
    rows: tuple[FileRow, ...]


def file_name(target: str, compiler: str) -> str:
    """Of the file for a target and a compiler, in the folder of such files."""
    return f"{target}_{re.sub('[^0-9A-Za-z.]+', '_', compiler)}.json"


def write_calibration(path: Path, content: CalibrationFile) -> None:
    """Writes the file whole or not at all. Raises UsageError where it cannot be written."""
    text = msgspec.json.format(msgspec.json.encode(content), indent=2)
    draft = path.with_name(path.name + ".new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(text + b"\n")
        draft.replace(path)
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be written: {error.strerror or error}", "name another file: --output"
        ) from error


def read_calibration(path: Path) -> CalibrationFile:
    """Reads a file strictly. Raises UsageError naming the file and the field at fault."""
    try:
        content = msgspec.json.decode(path.read_bytes(), type=CalibrationFile)
    except OSError as error:
        raise UsageError(
            f"calibration file {path}: cannot be read: {error.strerror or error}", _AGAIN
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"calibration file {path}: {error}", _AGAIN) from error
    clock = content.clock
    for name in ("hz", "bandwidth", "latency", "chunk_bytes", "granule"):
        value = getattr(clock, name)
        if not (math.isfinite(value) and value > 0):
            raise UsageError(f"calibration file {path}: {name} is {value}", _AGAIN)
    if not 0 <= content.expected_error < 1:
        raise UsageError(
            f"calibration file {path}: expected_error is {content.expected_error}", _AGAIN
        )
    return content


def calibration_for(setting: str, path: Path, target: Target, compiler: str) -> Calibration | None:
    """What the user's calibration means for a target and a compiler; None where there is none.

    `setting` is what the settings say, `path` the file that they mean, or the folder of files. A
    file for another device or compiler is not used; the note says so. Raises UsageError for a file
    that is missing where it is named, or broken.
    """
    if setting == OFF:
        return None
    if not setting:
        known = path / file_name(target.name, compiler)
        others = sorted(path.glob(f"{target.name}_*.json"))
        found = known if known.is_file() else next(iter(others), None)
        if found is None:
            return None
        path = found
    content = read_calibration(path)
    if content.target != target.name or content.device != target.device_kind:
        return Calibration(_unused(path, content, f"not {target.name} ({target.device_kind})"))
    if content.compiler != compiler:
        return Calibration(_unused(path, content, f"not {compiler}"))
    return Calibration(
        f"clock constants calibrated on a {content.device} with {content.compiler} on "
        f"{content.date} ({path.name}): {100 * content.residual:.1f} % typical residual on "
        "microkernels",
        content.clock,
        content.expected_error,
    )


def _unused(path: Path, content: CalibrationFile, reason: str) -> str:
    return (
        f"calibration file {path.name} is not used: it is for {content.target} ({content.device}) "
        f"with {content.compiler}, {reason}"
    )
