"""Python source to a syntax tree, from any thread."""

from __future__ import annotations

import ast
import threading

_LOCK = threading.Lock()


def parse(source: str) -> ast.Module:
    """`ast.parse`, one thread at a time.

    CPython before 3.11.9 and 3.12.3 counts the depth of its trees in one place for all threads:
    two that parse at once may both fail with SystemError (python/cpython issue 106905).
    """
    with _LOCK:
        return ast.parse(source)
