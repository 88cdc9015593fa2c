"""Strategies for paged attention, and their tunables."""

from __future__ import annotations

import math

from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.costs import itemsize, memory_seconds
from maxkernel.engineers.builtin.paged.emit import decode_module
from maxkernel.engineers.builtin.paged.match import Decode, Pool, match
from maxkernel.targets import Target
from maxkernel.types import Plan, TaskInfo, TunableSpace

DECODE = "pages by DMA one block ahead, heads apart"
VMEM_SHARE = 0.94
BUFFER_SHARE = 0.5
"""Of VMEM that blocks of pages may take, both buffers of keys and values together."""
POSITIONS = (512, 256, 1024)
"""Positions of a block: enough to hide the latency of its copies, few beyond a length."""
SHORT = 0.5
"""Of the table that contexts use on average, for the estimate only."""
_STORY = """Pools stay in HBM. The pages of a sequence are copied block by block into one of two
buffers; the next block, also of the next sequence, is on its way while one is used. Nothing
beyond a length is read, neither pages nor entries of the table."""


def plans(info: TaskInfo, target: Target) -> list[Plan]:
    """Strategies for paged attention; raises Unsupported for any other program."""
    d = match(info)
    tunables(info, d, target)
    moved = sum(_bytes(pool) for pool in ([d.keys] if d.shared else [d.keys, d.values]))
    seconds = memory_seconds(moved * SHORT, target)
    reason = (
        "only the pages of each sequence's own length are read, straight from the pools; bound by"
        f" memory ({seconds * 1e6:.0f} us at half-full tables)"
    )
    return [Plan("paged", DECODE, reason, {}, seconds)]


def implement(info: TaskInfo, plan: Plan, target: Target) -> str:
    """Source for one of this family's plans."""
    d = match(info)
    limit = int(target.vmem_bytes * VMEM_SHARE)
    return decode_module(info, d, tunables(info, d, target), limit, _STORY)


def tunables(info: TaskInfo, d: Decode, target: Target) -> TunableSpace:
    """Pages of a block; raises Unsupported when not even one fits."""
    page = d.keys.use.shape[d.keys.slot]
    table_pages = info.inputs[d.table].shape[1]
    pools = [d.keys] if d.shared else [d.keys, d.values]
    one = 2 * sum(_bytes(pool) // pool.use.shape[pool.axis] for pool in pools)
    room = int(target.vmem_bytes * BUFFER_SHARE) // one
    wanted = [min(max(1, n // page), table_pages) for n in POSITIONS]
    choices = tuple(dict.fromkeys(n for n in wanted if n <= room))
    if not choices:
        raise Unsupported("not even one page of keys and values fits in VMEM twice")
    return {"block_pages": choices}


def _bytes(pool: Pool) -> int:
    return math.prod(pool.use.shape) * itemsize(pool.use.dtype)
