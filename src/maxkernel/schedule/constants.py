"""The few constants of the clock, per target, with their sources.

Clock rates are arithmetic from peak rate and MXU size (`targets.py`); v6e is confirmed by ten
published GEMM rows to 0.3 %, v7x is the effective rate of published MXU-bound rows. Bandwidth,
latency and cost of a run were chosen for v5e, v5p and v6e on the `fit` half of the published rows
(docs/fidelity.md), together; one alone is weakly determined. So were, for v6e, what transposes take
(`crosslane.py`), the shorter latency of writes, and the bandwidth that is left once an execution
has moved 3.2 GB. The latter is empirical: no cause of it is known, and few rows of the `fit` half
move more. Those of v7x come from an earlier trial on 22 published rows. No measurement of v4 is
public: its bandwidth is its peak times v5p's efficiency (2540/2765), its latency and run cost are
v5p's.
"""

from __future__ import annotations

import msgspec

from maxkernel.targets import Target
from maxkernel.types import Calibration, Clock, ProgramTime

VMEM_BANDWIDTH = 4e12
"""Bytes a second of copies inside VMEM; a guess, such copies are rare."""

_CLOCKS = {
    "v4": Clock(1.05e9, 1.23e12 * 2540 / 2765, 0.57e-6, 140, False, 512),
    "v5e": Clock(1.50e9, 700e9, 0.42e-6, 250, True),
    "v5p": Clock(1.75e9, 2540e9, 0.57e-6, 140, True),
    "v6e": Clock(
        1.75e9,
        1385e9,
        0.71e-6,
        130,
        True,
        burst_bytes=3.2e9,
        sustained=1230 / 1385,
        write_latency=0.3 / 0.71,
    ),
    "v7x": Clock(1.82e9, 3260e9, 0.90e-6, 128, True),
}


def clock_named(name: str) -> Clock | None:
    """The constants of the target of that name; None where there are none."""
    return _CLOCKS.get(name)


class Slots(msgspec.Struct, frozen=True):
    """Issue slots of one bundle, as the compiler's slot tables state them."""

    mxu: int
    xlu: int
    valu: int
    eup: int
    load: int
    store: int
    scalar: int
    pop: int
    matmul_cycles: int
    """Cycles that one matrix instruction (16 bf16 rows) keeps an MXU busy; peak rate / MXUs."""
    transpose_cycles: int = 0
    """Cycles that a 32-bit `vxpose` keeps its XLU busy where schedules reckon with fewer."""


_SLOTS = {
    "v4": Slots(4, 2, 2, 1, 1, 1, 2, 2, 16),
    "v5e": Slots(4, 3, 4, 1, 3, 1, 2, 2, 16),
    "v5p": Slots(4, 3, 4, 1, 3, 1, 2, 2, 16),
    "v6e": Slots(2, 2, 4, 1, 3, 2, 2, 2, 8, transpose_cycles=8),
    "v7x": Slots(2, 2, 4, 1, 3, 2, 2, 2, 8),
}


def slots_of(name: str) -> Slots:
    """The issue slots of a target; v6e's for one without an entry."""
    return _SLOTS.get(name, _SLOTS["v6e"])


def clock_of(target: Target, calibration: Calibration | None = None) -> Clock:
    """The constants for a target: calibrated ones where there are any, else the published ones.

    A target without an entry has 85 % of its peak bandwidth and 0.7 us.
    """
    if calibration and calibration.clock:
        return calibration.clock
    known = _CLOCKS.get(target.name)
    return known or Clock(target.clock_hz, 0.85 * target.hbm_bandwidth, 0.7e-6, 128, False)


def clock_behind(program: ProgramTime) -> Clock | None:
    """The constants that a program was simulated with; None where they are not known."""
    used = program.calibration.clock if program.calibration else None
    return used or clock_named(program.target)
