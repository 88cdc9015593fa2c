"""Quantities in words."""

from __future__ import annotations


def time_words(seconds: float) -> str:
    """`1.234 ms` or `12.34 us`."""
    return f"{seconds * 1e3:.3f} ms" if seconds >= 1e-4 else f"{seconds * 1e6:.2f} us"


def rate_words(rate: float) -> str:
    """Bytes a second in GB/s."""
    return f"{rate / 1e9:.0f} GB/s"


def size_words(size: float) -> str:
    """Bytes in the largest binary unit that leaves a number of at least one."""
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return f"{size:.0f} B"


def percent(share: float) -> str:
    """`12 %`; one digit below ten where it is not zero."""
    value = 100 * share
    return f"{value:.1f} %" if 0.05 <= value < 9.95 else f"{value:.0f} %"
