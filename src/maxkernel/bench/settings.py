"""What a table's rows depend on besides their task: the judge's stages, and maxkernel itself."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path

from maxkernel.judge import STAGE_VERSIONS

_PACKAGE = Path(__file__).parent.parent
_FACES = frozenset({"bench", "cli", "web", "report", "suites"})
"""Rooms that do not change what a row says of a task text."""


def stages() -> dict[str, int]:
    """Versions of the judge's stages; times of two of them do not belong in one table."""
    return dict(STAGE_VERSIONS)


@functools.cache
def code_digest() -> str:
    """Names the maxkernel that makes a row: its sources but for faces and task files."""
    return digest_of(lambda name: name.parts[0] not in _FACES)


def digest_of(wanted: Callable[[Path], bool]) -> str:
    """Names the sources of maxkernel that are wanted, by their paths within the package."""
    digest = hashlib.sha256()
    for path in sorted(_PACKAGE.rglob("*.py")):
        name = path.relative_to(_PACKAGE)
        if wanted(name):
            digest.update(f"{name}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:10]
