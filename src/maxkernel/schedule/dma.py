"""How long DMAs take: one queue to HBM with a bandwidth, a latency and a cost per run."""

from __future__ import annotations

import math


class DmaQueue:
    """Copies to and from HBM share one pipe, in the order of their issue. Times in cycles."""

    __slots__ = ("_bandwidth", "_burst", "_free", "_latency", "_piece", "_slow", "_vmem",
                 "_write_latency", "busy")  # fmt: skip

    def __init__(
        self,
        bandwidth: float,
        latency: float,
        piece: float,
        vmem: float,
        burst: float = math.inf,
        sustained: float = 1.0,
        write_latency: float = 1.0,
    ) -> None:
        """`bandwidth` and `vmem` in bytes a cycle, `latency` in cycles, `piece` in bytes.

        A write is complete after the share `write_latency` of `latency`: no data need come back.
        After `burst` bytes to and from HBM, only the share `sustained` of `bandwidth` is left.
        """
        self._bandwidth = bandwidth
        self._latency = latency
        self._write_latency = latency * write_latency
        self._piece = piece
        self._vmem = vmem
        self._burst = burst
        self._slow = bandwidth * sustained
        self._free = 0.0
        self.busy = 0.0
        """Cycles that copies to and from HBM have kept the pipe busy."""

    def submit(self, now: float, size: float, pieces: float, hbm: bool, writes: bool) -> float:
        """The time at which a copy of `size` bytes in `pieces` runs is complete.

        `hbm`: it reads or writes HBM.
        """
        if not hbm:
            return now + size / self._vmem
        start = max(now, self._free)
        took = (size + self._piece * pieces) / self._bandwidth
        self.busy += took
        self._burst -= size
        if self._burst < 0:
            self._bandwidth = self._slow
        self._free = start + took
        return self._free + (self._write_latency if writes else self._latency)
