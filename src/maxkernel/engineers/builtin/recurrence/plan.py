"""The strategy for recurrences, and its source."""

from __future__ import annotations

import math

from maxkernel.engineers.builtin.costs import STEP_SECONDS, itemsize, memory_seconds
from maxkernel.engineers.builtin.recurrence.emit import recurrence_module
from maxkernel.engineers.builtin.recurrence.match import Recurrence, match
from maxkernel.targets import Target
from maxkernel.types import Plan, TaskInfo, TunableSpace

STRATEGY = "heads side by side, chunks in order, states in VMEM"
_STORY = (
    "Products inside a chunk, a state in VMEM from chunk to chunk: what is between them\n"
    "never goes to memory."
)
_HEADS, _SOLVED = (8, 4, 16, 2), (4, 8, 2)
"""Heads of a step of the grid: independent chains of products that overlap. Fewer where systems
are solved, which are long programs."""
_VMEM_SHARE = 0.75
_MXU_SHARE = 0.1
"""Of peak that small products in chains reach, for estimates."""


def plans(info: TaskInfo, target: Target) -> list[Plan]:
    """The one strategy; raises Unsupported for any other program."""
    loop = match(info.graph)
    graph = info.graph
    ends = (*loop.loop.inputs, *loop.loop.outputs)
    moved = sum(math.prod(graph.values[v].shape) * itemsize(graph.values[v].dtype) for v in ends)
    traffic = memory_seconds(float(moved), target)
    compute = info.flops / (target.bf16_flops * _MXU_SHARE)
    steps = int(loop.loop.params["length"]) * STEP_SECONDS
    reason = (
        f"states never leave VMEM: {compute * 1e6:.0f} us of products,"
        f" {traffic * 1e6:.0f} us of traffic"
    )
    return [Plan("recurrence", STRATEGY, reason, {}, max(compute, traffic) + steps)]


def implement(info: TaskInfo, plan: Plan, target: Target) -> str:
    """Source for this family's plan."""
    loop = match(info.graph)
    limit = int(target.vmem_bytes * _VMEM_SHARE)
    return recurrence_module(info, _tunables(loop, limit), limit, _STORY)


def _tunables(loop: Recurrence, limit: int) -> TunableSpace:
    """Heads of a step, as far as their blocks fit: twice all operands and results."""
    ends = (*loop.one.inputs, *loop.one.outputs)
    sizes = [(v, math.prod(loop.one.values[v].shape) * 4) for v in ends]
    head = sum(2 * size for v, size in sizes if v in loop.heads)
    work = 8 * max(math.prod(v.shape) for v in loop.one.values) * 4
    solves = any(node.op == "triangular_solve" for node in loop.one.nodes)
    wanted = _SOLVED if solves else _HEADS
    fits = tuple(n for n in wanted if n * (head + work) <= limit)
    return {"heads": fits or wanted[-1:]}
