"""Unpacks the kept dumps, on the first releases of Python 3.11 too."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

_SAFE: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
"""Python 3.11.4 and newer refuse members that would leave the folder; these archives are ours."""


def unpack(archive: Path, folder: Path) -> None:
    """Everything in a `.tar.gz` file, into a folder."""
    with tarfile.open(archive) as packed:
        packed.extractall(folder, **_SAFE)
