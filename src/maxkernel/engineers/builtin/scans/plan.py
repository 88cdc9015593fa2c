"""Strategies for linear attention, and their tunables."""

from __future__ import annotations

from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.costs import itemsize, memory_seconds
from maxkernel.engineers.builtin.scans.emit import scan_module
from maxkernel.engineers.builtin.scans.match import Scan, match
from maxkernel.engineers.builtin.terms import Program
from maxkernel.targets import Target
from maxkernel.types import Plan, TaskInfo, TunableSpace

CHUNKS = "scan over chunks, the state in VMEM"
SWEEP = "scan over chunks with a sweep over earlier keys"
VMEM_SHARE = 0.8
"""Of VMEM that blocks and scratch may take; the rest is the compiler's."""
MXU_SHARE = 0.5
"""Of peak that the short products of a chunk reach."""
_STORIES = {
    CHUNKS: "Inside a chunk the quadratic form, between chunks a state of (width, value width):"
    "\nwork grows with the length, not with its square.",
    SWEEP: "Inside a chunk the quadratic form, between chunks a state of (width, value width)."
    "\nSizes of scores do not add up in a state, so earlier keys are met again for them alone;"
    "\nthose scores never leave VMEM.",
}


def plans(info: TaskInfo, program: Program, target: Target) -> list[Plan]:
    """The one strategy for this kind of rows; raises Unsupported for any other program."""
    scan = match(program)
    space = tunables(scan, target)
    heads, length, width, value_width = scan.sizes
    chunk = space["chunk"][0]
    assert isinstance(chunk, int)
    flops = 2.0 * heads * length * (chunk * (width + value_width) + 2 * width * value_width)
    if scan.norm == "absolute":
        flops += 1.0 * heads * length * length * width
    compute = flops / (target.bf16_flops * MXU_SHARE)
    moved = 2.0 * heads * length * (width + value_width) * itemsize(scan.pair.q.use.dtype)
    traffic = memory_seconds(moved, target)
    reason = (
        f"scores never leave VMEM: {compute * 1e6:.0f} us of products,"
        f" {traffic * 1e6:.0f} us of traffic"
    )
    return [Plan("scans", _strategy(scan), reason, {}, max(compute, traffic))]


def implement(info: TaskInfo, program: Program, plan: Plan, target: Target) -> str:
    """Source for one of this family's plans."""
    scan = match(program)
    limit = int(target.vmem_bytes * VMEM_SHARE)
    return scan_module(info, scan, tunables(scan, target), limit, _STORIES[plan.strategy])


def tunables(scan: Scan, target: Target) -> TunableSpace:
    """Positions of a chunk, and heads per step: independent chains of products that overlap."""
    chunks = (512, 256, 1024) if scan.norm == "absolute" else (256, 512, 128)
    wanted = (4, 2, 1) if scan.norm == "absolute" else (8, 4, 2, 1)
    heads = [n for n in wanted if n * _head_bytes(scan, chunks[0]) <= _free(scan, target)]
    if not heads:
        raise Unsupported("all positions of a head do not fit in VMEM")
    return {"chunk": chunks, "heads": tuple(heads[:3])}


def _strategy(scan: Scan) -> str:
    return SWEEP if scan.norm == "absolute" else CHUNKS


def _free(scan: Scan, target: Target) -> float:
    return target.vmem_bytes * VMEM_SHARE


def _head_bytes(scan: Scan, chunk: int) -> int:
    """VMEM of one head: two buffers of its arrays, decays, scratch, and a chunk's scores."""
    _, length, width, value_width = scan.sizes
    size = itemsize(scan.pair.q.use.dtype)
    arrays = 4 * length * (width + value_width) * size + 8 * 2 * 4 * length
    kept = length * max(width, 128) * size if scan.norm == "absolute" else 0
    return arrays + kept + 4 * value_width * max(width, 128) + 4 * 4 * chunk * chunk
