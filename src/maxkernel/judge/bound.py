"""Roofline bounds of a task: what no program can beat, and what progress is measured against."""

from __future__ import annotations

import msgspec

from maxkernel.targets import Target, peak_rate
from maxkernel.types import Graph, TaskInfo, Time

_PARTIAL_READERS = frozenset(
    {"gather", "dynamic_slice", "slice", "scan", "while", "cond", "dynamic_update_slice", "scatter"}
)
"""Operators after which it is not certain that every byte of an operand has to be read."""


class Roofline(msgspec.Struct, frozen=True):
    """Lower bounds in seconds, from the chip's published peak figures."""

    compute: float
    """Arithmetic of the reference's matrix products and convolutions at the MXU's peak rate."""
    memory: float
    """All inputs read once and all outputs written once at peak HBM bandwidth."""
    floor: float
    """Bytes that any program has to move, at peak bandwidth: whole inputs, all outputs.

    Algebra may save arithmetic and a kernel may skip masked blocks, so only bytes that nothing
    can save count here. A time below the floor is a fault of the candidate or of the clock.
    """

    @property
    def time(self) -> Time:
        """The bound that a roofline fraction is quoted against."""
        return Time(seconds=max(self.compute, self.memory), provenance="bound")

    @property
    def limit(self) -> str:
        """`compute` or `memory`: the side of the roofline that the task lies on."""
        return "compute" if self.compute > self.memory else "memory"


def roofline(info: TaskInfo, target: Target) -> Roofline:
    """Bounds of a task on a target; the MXU rate is that of the fastest input dtype."""
    rate = max((peak_rate(target, spec.dtype) for spec in info.inputs), default=target.bf16_flops)
    return Roofline(
        compute=info.flops / rate,
        memory=info.io_bytes / target.hbm_bandwidth,
        floor=_needed_bytes(info) / target.hbm_bandwidth,
    )


def _needed_bytes(info: TaskInfo) -> float:
    graph = info.graph
    sizes = [value_bytes(graph, index) for index in (*_whole_inputs(graph), *set(graph.outputs))]
    return float(sum(sizes))


def _whole_inputs(graph: Graph) -> list[int]:
    partial = {i for node in graph.nodes if node.op in _PARTIAL_READERS for i in node.inputs}
    used = {i for node in graph.nodes for i in node.inputs}
    return [index for index in graph.inputs if index in used and index not in partial]


def value_bytes(graph: Graph, index: int) -> float:
    """Bytes of one value of a graph."""
    value = graph.values[index]
    size = 1
    for extent in value.shape:
        size *= extent
    return size * dtype_bytes(value.dtype)


def dtype_bytes(dtype: str) -> float:
    """Bytes per element of a dtype by its numpy name (0.5 for 4-bit types)."""
    if dtype == "bool":
        return 1
    digits = "".join(c if c.isdigit() else " " for c in dtype).split()
    return int(digits[0]) / 8 if digits else 4
