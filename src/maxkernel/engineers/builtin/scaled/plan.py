"""The strategy for products with a scale per block, and its tunables."""

from __future__ import annotations

from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.costs import (
    VALU_SLOTS,
    VREG_ELEMENTS,
    itemsize,
    memory_seconds,
)
from maxkernel.engineers.builtin.scaled.emit import scaled_module
from maxkernel.engineers.builtin.scaled.match import LANES, ScaledProduct, match
from maxkernel.engineers.builtin.terms import Program
from maxkernel.targets import Target, peak_rate
from maxkernel.types import Plan, TaskInfo, TunableSpace

NAME = "partial products of blocks, scaled and added up in VMEM"
VMEM_SHARE = 0.94
_OPERATIONS = 3
"""Of the vector units per element of a partial product: two scales and a sum."""


def plans(info: TaskInfo, program: Program, target: Target) -> list[Plan]:
    """The strategy for such a sum; raises Unsupported for any other program."""
    p = match(program, info)
    tunables(p, target)
    m, n, blocks, depth = p.sizes
    share = depth / (-(-depth // target.mxu_size) * target.mxu_size)
    work = 2.0 * m * n * blocks * depth / (share * peak_rate(target, p.dtypes[0]))
    cycles = _OPERATIONS * m * n * blocks / VALU_SLOTS / VREG_ELEMENTS
    vector = cycles / target.clock_hz
    moved = (m * itemsize(p.x.dtype) + n * itemsize(p.w.dtype)) * blocks * depth
    seconds = max(work, vector, memory_seconds(moved, target))
    reason = (
        "Partial products never leave VMEM: they are scaled and added up there."
        f" {work * 1e6:.0f} us of products, {vector * 1e6:.0f} us of scaling beside them."
    )
    return [Plan("scaled", NAME, reason, {}, seconds)]


def implement(info: TaskInfo, program: Program, plan: Plan, target: Target) -> str:
    """Source for one of this family's plans."""
    if plan.strategy != NAME:
        raise Unsupported(f"no strategy is called {plan.strategy!r}")
    p = match(program, info)
    limit = int(target.vmem_bytes * VMEM_SHARE)
    return scaled_module(info, p, tunables(p, target), limit)


def tunables(p: ScaledProduct, target: Target) -> TunableSpace:
    """Blocks of the result; raises Unsupported where none fits in VMEM."""
    found = [
        (m, n)
        for m, n in ((1024, 1024), (2048, 1024), (1024, 512), (2048, 512), (512, 512), (256, 256))
        if _footprint(p, m, n) <= VMEM_SHARE * target.vmem_bytes
    ]
    if not found:
        raise Unsupported("no block of the product fits in VMEM")
    return {
        "block_m": tuple(dict.fromkeys(m for m, _ in found))[:3],
        "block_n": tuple(dict.fromkeys(n for _, n in found))[:2],
        "chunk_rows": (256, 512),
    }


def _footprint(p: ScaledProduct, m: int, n: int) -> float:
    """VMEM bytes: two buffers of every block, the accumulator, and a chunk's values."""
    k = p.group * p.sizes[3]
    blocks = m * k * itemsize(p.x.dtype) + n * k * itemsize(p.w.dtype) + 4 * m * LANES + 2 * m * n
    return 2 * blocks + 4 * m * n + 2 * n * k + 3 * 4 * 256 * n
