"""A trial that somebody killed is made again; one that dies of itself is not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from maxkernel.sandbox.trial import KILLED_AGAIN, attempt

COUNTED = """
import os, sys
with open(sys.argv[1], "ab") as file:
    file.write(b".")
if os.stat(sys.argv[1]).st_size <= int(sys.argv[2]):
    {end}
"""


@pytest.mark.parametrize(
    ("end", "times", "runs", "status"),
    [
        ("os.kill(os.getpid(), 9)", 2, 3, 0),
        ("os._exit(137)", 1, 2, 0),
        ("os.kill(os.getpid(), 9)", 100, 1 + KILLED_AGAIN, -9),
        ("os.kill(os.getpid(), 15)", 1, 1, -15),
        ("os._exit(3)", 1, 1, 3),
    ],
)
def test_only_kills_are_forgiven(
    end: str, times: int, runs: int, status: int, tmp_path: Path
) -> None:
    count = tmp_path / "count"
    command = [sys.executable, "-c", COUNTED.format(end=end), str(count), str(times)]
    assert attempt(command, 60).returncode == status
    assert count.stat().st_size == runs
