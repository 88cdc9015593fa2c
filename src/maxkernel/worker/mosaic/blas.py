"""Keeps numpy's matrix products on one thread while kernels run, but for large ones.

Most blocks are small: waking OpenBLAS's threads costs more than they give, and on a machine whose
cores are busy a product of 128 x 128 matrices was seen to take 8 ms with two threads, 0.03 ms with
one. A block of a full-size product takes tens of milliseconds on one core.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
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

LARGE = 2e9
"""Operations of a product from which on its halves are computed side by side: 30 ms on a laptop's
core."""

ROWS = 128
"""A half has a multiple of so many rows."""


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


def product(a: Any, b: Any) -> Any:
    """numpy.matmul; of a large one the upper and the lower half side by side.

    OpenBLAS's own threads would sum in another order for every number of cores.
    """
    if a.ndim != 2 or a.shape[0] % (2 * ROWS) or 2.0 * a.size * b.shape[1] < LARGE:
        return np.matmul(a, b)
    found = np.empty((a.shape[0], b.shape[1]), a.dtype)
    middle = a.shape[0] // 2

    def half(rows: slice) -> None:
        with np.errstate(all="ignore"):
            np.matmul(a[rows], b, out=found[rows])

    for _ in _helpers().map(half, (slice(0, middle), slice(middle, None))):
        pass
    return found


@functools.cache
def _helpers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(2, "product")
