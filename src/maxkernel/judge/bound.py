"""Roofline bounds of a task: what no program can beat, and what progress is measured against."""

from __future__ import annotations

import msgspec

from maxkernel.targets import Target, peak_rate
from maxkernel.types import TaskInfo, Time


class Roofline(msgspec.Struct, frozen=True):
    """Lower bounds in seconds, from the chip's published peak figures."""

    compute: float
    """Arithmetic of the reference's matrix products and convolutions at the MXU's peak rate."""
    memory: float
    """Inputs read once and outputs written once (`TaskInfo.io_bytes`) at peak HBM bandwidth."""
    floor: float
    """Bytes that any program has to move (`TaskInfo.least_bytes`), at peak bandwidth.

    Algebra may save arithmetic and a kernel may skip masked blocks, so only bytes that nothing
    can save count here. A time below the floor is a fault of the candidate or of the clock.
    """

    @property
    def time(self) -> Time:
        """The bound that a roofline fraction is quoted against."""
        return Time(seconds=max(self.compute, self.memory), provenance="bound")

    def reached(self, seconds: float, share: float) -> bool:
        """Whether a kernel is within `share` of what can be had, so that search may end.

        A kernel that beats the bound does less work than the reference (masked blocks skipped,
        sums taken in another order): the bound says nothing of it, and the floor counts.
        """
        limit = self.time.seconds if seconds >= self.time.seconds else self.floor
        return limit >= share * seconds

    @property
    def limit(self) -> str:
        """`compute` or `memory`: the side of the roofline that the task lies on."""
        return "compute" if self.compute > self.memory else "memory"


def fastest_rate(info: TaskInfo, target: Target) -> float:
    """The MXU's peak operations per second on the fastest dtype among a task's inputs."""
    return max((peak_rate(target, spec.dtype) for spec in info.inputs), default=target.bf16_flops)


def roofline(info: TaskInfo, target: Target) -> Roofline:
    """Bounds of a task on a target; the MXU rate is that of the fastest input dtype."""
    return Roofline(
        compute=info.flops / fastest_rate(info, target),
        memory=info.io_bytes / target.hbm_bandwidth,
        floor=info.least_bytes / target.hbm_bandwidth,
    )
