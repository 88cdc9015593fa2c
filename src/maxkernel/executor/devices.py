"""Whether this machine has a TPU, told without starting anything."""

from __future__ import annotations

from pathlib import Path

_PATTERNS = ("accel[0-9]*", "vfio/[0-9]*")
"""Device files of TPU chips under /dev: of the accel driver (v4, v5), or groups of vfio (v5 on)."""
_SHARED = ("vfio/vfio",)


def tpu_device_files(dev: Path = Path("/dev")) -> tuple[Path, ...]:
    """Device files that a TPU's process opens; empty where there can be no TPU.

    Other devices use vfio too, so that only a worker can say whether a TPU answers.
    """
    found = [path for pattern in _PATTERNS for path in sorted(dev.glob(pattern))]
    shared = [dev / name for name in _SHARED if (dev / name).exists()]
    return (*found, *shared) if found else ()
