"""The right to drive a run: one process at a time."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from maxkernel.errors import UsageError


def claim(folder: Path) -> int:
    """A lock on the run's folder that the kernel frees when this process ends, however it ends."""
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        raise UsageError(
            f"{folder} is being driven by another process",
            "wait for it or stop it; `maxkernel show` works meanwhile",
        ) from error
    return handle
