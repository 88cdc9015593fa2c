"""Test helper: `ruff` has nothing to say about an emitted source."""

from __future__ import annotations

import subprocess
import sys

RULES = "E,F,W,I,B,UP,RET"


def assert_clean(source: str, line_length: int = 100) -> None:
    """Lints with lines up to this long, and formats at ruff's own line length."""
    lint = ["check", "--select", RULES, "--line-length", str(line_length)]
    for command in (lint, ["format", "--check"]):
        run = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--isolated", "--no-cache", "-"],
            input=source,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert run.returncode == 0, run.stdout + run.stderr
