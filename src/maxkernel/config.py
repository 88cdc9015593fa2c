"""Settings of this user and machine: defaults, a config file, then environment variables.

The file is `config.toml` in the user's configuration folder (`maxkernel doctor` prints where);
its keys are the field names of `Settings`. `MAXKERNEL_<FIELD>` in the environment wins over it.
"""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import platformdirs

from maxkernel.errors import UsageError


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where things lie and how much of the machine to use."""

    cache_dir: str = ""
    """Evaluation cache; default: the user's cache folder."""
    runs_dir: str = "maxkernel-runs"
    """Run files and bundles, relative to the current folder unless absolute."""
    worker_python: str = ""
    """Interpreter for workers, with the jax to judge for; default: this interpreter."""
    workers: int = 2
    """Worker processes that compile at once."""
    executor: str = "local"
    """Where workers run: `local`, or `ray` or `ray:ADDRESS` for the hosts of a Ray cluster."""
    check_limit_mb: int = 512
    """Largest working set of a task without `check_inputs` whose full size is checked."""
    capture_seconds: float = 60.0
    compile_seconds: float = 180.0
    check_seconds: float = 120.0
    trace_seconds: float = 180.0
    capture_memory_mb: int = 8192
    """Address space of the process that imports a candidate."""
    calibration: str = ""
    """Calibration file of the clock, or `off`; default: one per device and compiler, where
    `maxkernel calibrate` writes it."""
    allow_hybrid: bool = False
    """Also accept programs of which kernels do next to nothing and XLA the rest."""
    worker_memory_mb: int = 12288
    """Resident memory at which a compile or check worker is killed."""

    @property
    def cache_path(self) -> Path:
        """Folder of the evaluation cache."""
        if self.cache_dir:
            return Path(self.cache_dir).expanduser()
        return Path(platformdirs.user_cache_dir("maxkernel"))

    @property
    def calibration_path(self) -> Path:
        """The calibration file, or the folder of those that `maxkernel calibrate` writes."""
        if self.calibration:
            return Path(self.calibration).expanduser()
        return Path(platformdirs.user_data_dir("maxkernel")) / "calibration"

    @property
    def runs_path(self) -> Path:
        """Folder of run files and bundles."""
        return Path(self.runs_dir).expanduser()

    @property
    def python(self) -> str:
        """Interpreter for workers."""
        return self.worker_python or sys.executable


def config_file() -> Path:
    """The user's config file, whether or not it exists."""
    return Path(platformdirs.user_config_dir("maxkernel")) / "config.toml"


def load_settings() -> Settings:
    """Settings from file and environment; raises UsageError naming the bad key or value."""
    values: dict[str, Any] = {}
    path = config_file()
    if path.is_file():
        try:
            values |= tomllib.loads(path.read_text())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"{path}: not valid TOML: {error}") from error
    for name in Settings.__struct_fields__:
        text = os.environ.get(f"MAXKERNEL_{name.upper()}")
        if text is not None:
            values[name] = text
    try:
        settings = msgspec.convert(values, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"bad setting: {error}", f"check {path} and the MAXKERNEL_* variables"
        ) from error
    if settings.workers < 1:
        raise UsageError(f"bad setting: workers is {settings.workers}; it must be at least 1")
    return settings
