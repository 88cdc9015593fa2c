"""What a program that runs again and again cannot hide: the bytes fetched for its next execution.

XLA may fetch an input to VMEM while the execution before is still running. Such a copy moves
nothing in its own program, but its bytes share HBM's pipe with what the program moves itself: an
execution cannot take less time than the pipe is busy with both.
"""

from __future__ import annotations

from collections.abc import Mapping

from maxkernel.schedule.hlo import Hlo
from maxkernel.schedule.program import Core
from maxkernel.targets import Target
from maxkernel.types import Clock


def prefetch_waits(
    hlo: Hlo, cores: list[Core], cycles: float, target: Target, clock: Clock
) -> Mapping[str, float]:
    """Cycles that each copy for the next execution adds to one of `cycles`, by HLO name."""
    sizes = hlo.prefetches()
    whole = sum(sizes.values())
    if not whole:
        return {}
    # Each core has an equal share of the bandwidth, so the chip is busy for their mean.
    busy = sum(core.machine.queue.busy for core in cores) / len(cores)
    needs = whole / (clock.bandwidth * len(cores) / target.cores / clock.hz)
    late = max(0.0, busy + needs - cycles)
    return {name: late * size / whole for name, size in sizes.items()}
