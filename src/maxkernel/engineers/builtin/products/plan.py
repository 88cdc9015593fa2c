"""The strategy for feed-forward layers, and its tunables."""

from __future__ import annotations

from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.costs import memory_seconds
from maxkernel.engineers.builtin.products.emit import PAIR_STORY, STORY, feed_forward_module
from maxkernel.engineers.builtin.products.match import FeedForward, match
from maxkernel.engineers.builtin.terms import Program
from maxkernel.targets import Target
from maxkernel.types import Plan, TaskInfo, TunableSpace

STRATEGY = "two products in one pass, then the last one"
PAIR = "two products in one pass"
VMEM_SHARE = 0.88
"""Of VMEM that blocks may take; the rest is the compiler's."""
MXU_SHARE = 0.92
"""Of peak that both kernels together reach (simulated v6e)."""
ITEM = 2
"""Bytes of a bfloat16 value."""


def plans(info: TaskInfo, program: Program, target: Target) -> list[Plan]:
    """The one strategy; raises Unsupported for any other program."""
    layer = match(program)
    tunables(layer, target)
    rows, width, hidden, out = layer.sizes
    work = 2.0 * rows * hidden * (2 * width + out) / (target.bf16_flops * MXU_SHARE)
    stored = 2 * hidden if out else hidden
    moved = ITEM * (rows * (width + stored + out) + hidden * (2 * width + out))
    traffic = memory_seconds(moved, target)
    cost = f"{work * 1e6:.0f} us of products, {traffic * 1e6:.0f} us of traffic"
    reason = f"{' '.join((STORY if layer.last else PAIR_STORY).split())} {cost}."
    strategy = STRATEGY if layer.last else PAIR
    return [Plan("products", strategy, reason, {}, max(work, traffic))]


def implement(info: TaskInfo, program: Program, plan: Plan, target: Target) -> str:
    """Source for this family's plan."""
    layer = match(program)
    limit = int(target.vmem_bytes * 0.94)
    return feed_forward_module(info, layer, tunables(layer, target), limit)


def tunables(layer: FeedForward, target: Target) -> TunableSpace:
    """Blocks of whole k for the first two products, with an accumulator for the last one."""
    _, width, _, _ = layer.sizes
    free = VMEM_SHARE * target.vmem_bytes
    heights = (1024, 512, 256, 128) if layer.last else (8192, 4096, 2048, 1024, 512, 256, 128)
    pairs = [
        (m, n)
        for m in heights
        for n in (512, 256, 128)
        if 2 * ITEM * (width * (m + 2 * n) + m * n) + 3 * 4 * 512 * n <= free
    ]
    lasts = [
        (m, k)
        for m in (2048, 1024, 512)
        for k in (1024, 512)
        if 2 * ITEM * (2 * m * k + m * m) + 4 * m * m + 4 * 512 * m <= free
    ]
    if not pairs or not lasts:
        raise Unsupported("no blocks of these products fit in VMEM")
    space: TunableSpace = {
        "block_m": tuple(dict.fromkeys(m for m, _ in pairs))[:2],
        "block_n": tuple(dict.fromkeys(n for m, n in pairs if m == pairs[0][0]))[:2],
    }
    if not layer.last:
        return space
    return {
        **space,
        "out_m": tuple(dict.fromkeys(m for m, _ in lasts))[:2],
        "out_n": tuple(dict.fromkeys(m for m, _ in lasts))[:2],
        "out_k": tuple(dict.fromkeys(k for m, k in lasts if m == lasts[0][0]))[:2],
    }
