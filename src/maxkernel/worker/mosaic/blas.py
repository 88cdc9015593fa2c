"""Keeps numpy's matrix products on one thread while kernels run.

Blocks are small: waking OpenBLAS's threads costs more than they give, and on a machine whose cores
are busy a product of 128 x 128 matrices was seen to take 8 ms with two threads, 0.03 ms with one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import numpy as np

_SUFFIXES = ("scipy_openblas_{}_num_threads64_", "openblas_{}_num_threads64_")


def _functions() -> tuple[Any, Any] | None:
    """OpenBLAS's getter and setter of its thread count, where numpy is linked to OpenBLAS."""
    core: Any = getattr(np, "_core", None)
    path = getattr(getattr(core, "_multiarray_umath", None), "__file__", None)
    if path is None:
        return None
    library = ctypes.CDLL(path)
    for name in _SUFFIXES:
        if hasattr(library, name.format("set")):
            return getattr(library, name.format("get")), getattr(library, name.format("set"))
    return None


_CONTROL = _functions()


@contextmanager
def one_thread() -> Generator[None]:
    """One thread inside, as many as before afterwards; without effect for other libraries."""
    if _CONTROL is None:
        yield
        return
    get, put = _CONTROL
    before = get()
    put(1)
    try:
        yield
    finally:
        put(before)
