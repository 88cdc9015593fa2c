"""The right to drive a run: one process at a time."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from maxkernel.errors import UsageError


def claim(folder: Path) -> int:
    """A lock on the run's folder that the kernel frees when this process ends, however it ends."""
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _lock(handle)
    except OSError as error:
        os.close(handle)
        raise UsageError(
            f"{folder} is being driven by another process",
            "wait for it or stop it; `maxkernel show` works meanwhile",
        ) from error
    return handle


def _lock(handle: int) -> None:
    """Takes the lock; a reader that looks whether a run is driven may hold it for an instant."""
    for pause in (0.02, 0.05, 0.1, 0.2):
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            time.sleep(pause)
    return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_claimed(folder: Path) -> bool:
    """True while some process drives the run."""
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False
