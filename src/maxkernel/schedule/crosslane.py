"""What transposes take beyond their schedule, where the compiler reckons with a faster unit.

For v6e the compiler issues a 32-bit `vxpose`, one register of eight rows, every 4 cycles to a
cross-lane unit, and reads the result as early as that allows; for v5e and v5p every 8 cycles.
Published times of v6e fit 8 there too, on the `fit` half (docs/fidelity.md): a program that does
little but transpose came out 7 % short with 4. The unit takes what it is given and works it off in
order, so only reading a result waits, and only where it transposes more than it can.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Sequence

from maxkernel.schedule.blocks import Block
from maxkernel.schedule.text import Bundle

_RECKONED = 4
"""Cycles between two that the compiler reckons with."""
_LATENCY = 60
"""From a transpose's last register to its first result: what schedules leave between them."""
_ITEM = re.compile(
    r"= (?:vpop\.trf\.xlu(\d)|vxpose\.(?:binary\.)?xlu(\d)\.(b32|c\.b16)\.([\w.]+)"
    r"[^;]*?width=(\d+))"
)
_ROWS = {"b32": 8, "c.b16": 16}
"""Rows of one result register."""


class _Unit:
    """One cross-lane unit: until when it is busy, as reckoned and in truth, and open results."""

    def __init__(self) -> None:
        self.reckoned = 0
        self.free = 0
        self.results: deque[tuple[int, int]] = deque()
        """(first cycle of reading, cycles that it is later than reckoned) of each result."""

    def take(self, now: int, busy: int) -> None:
        self.reckoned = max(now, self.reckoned) + _RECKONED
        self.free = max(now, self.free) + busy

    def finish(self, registers: int) -> None:
        found = (self.free + _LATENCY, self.free - self.reckoned)
        self.results.extend([found] * registers)

    def wait(self, now: int) -> int:
        """Cycles until the next result can be read."""
        ready, late = self.results.popleft() if self.results else (0, 0)
        return max(0, min(ready - now, late))


def held(bundles: Sequence[Bundle], blocks: Iterable[Block], busy: int) -> dict[int, int]:
    """Cycles for which a bundle waits each time it runs, by its number; `busy` is a register's.

    A block starts with idle units.
    """
    found: dict[int, int] = {}
    for block in blocks if busy > _RECKONED else ():
        units: dict[str, _Unit] = {}
        waited = 0
        for at in range(block.start, block.end):
            text = bundles[at].text
            if ".xlu" not in text:
                continue
            late = _issue(text, at + waited, units, busy)
            if late:
                found.setdefault(at, late)
                waited += late
    return found


def _issue(text: str, now: int, units: dict[str, _Unit], busy: int) -> int:
    """Cycles that a bundle waits before it issues what it has for the cross-lane units."""
    items = _ITEM.findall(text)
    late = max((units[popped].wait(now) for popped, *_ in items if popped in units), default=0)
    for _, number, kind, part, width in items:
        if number:
            unit = units.setdefault(number, _Unit())
            unit.take(now + late, busy if kind == "b32" else _RECKONED)
            if part.endswith("end"):
                unit.finish(int(width) // _ROWS[kind])
    return late
