"""Runs a short command to see whether something works here."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping, Sequence

KILLED_AGAIN = 3
"""How often a command is run once more that somebody killed: that says nothing of what is tried."""


def attempt(
    command: Sequence[str], seconds: float, variables: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """The command's end, with what it wrote. `variables` are all of its environment, if given.

    Raises OSError when it cannot be started, subprocess.TimeoutExpired after `seconds`.
    """
    env = None if variables is None else dict(variables)
    left = KILLED_AGAIN
    while True:
        done = subprocess.run(list(command), capture_output=True, timeout=seconds, env=env)
        killed = done.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL)
        if not killed or not left:
            return done
        left -= 1
