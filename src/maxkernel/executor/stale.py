"""Removes folders of control processes that were killed before they could."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

PREFIX = "maxkernel-"
_NAME = re.compile(rf"{PREFIX}(\d+)-\w+")


def remove_stale() -> None:
    """Deletes this user's worker folders whose control process no longer lives."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        match = _NAME.fullmatch(folder.name)
        try:
            mine = folder.is_dir() and folder.lstat().st_uid == os.getuid()
        except OSError:
            continue
        if match and mine and not Path(f"/proc/{match[1]}").exists():
            shutil.rmtree(folder, ignore_errors=True)
