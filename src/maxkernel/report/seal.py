"""The seal of a report: one digest over everything that it claims.

A seal is no secret signature: whoever changes a report can seal it anew. It makes a change seen
by everyone who knows the seal; that the claims are true is shown by judging again (`verify`).
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

FIELD = "seal"


def seal_of(document: dict[str, Any]) -> str:
    """SHA-256 of a report's JSON document without its seal, keys sorted."""
    claims = {key: value for key, value in document.items() if key != FIELD}
    text = json.dumps(claims, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def digest_of(text: str) -> str:
    """SHA-256 of a file's text."""
    return hashlib.sha256(text.encode()).hexdigest()
