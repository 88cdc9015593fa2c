"""Strategies for paged attention, and their tunables."""

from __future__ import annotations

import math

from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.costs import itemsize, memory_seconds
from maxkernel.engineers.builtin.paged.emit import decode_module
from maxkernel.engineers.builtin.paged.match import Decode, Pool, match
from maxkernel.engineers.builtin.paged.ragged import Ragged, match_ragged
from maxkernel.engineers.builtin.paged.ragged_emit import ragged_module
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
RAGGED = "work lists of blocks of queries, pages by DMA one block ahead"
RAGGED_MXU_SHARE = 0.4
"""Of the matrix unit's peak that blocks of queries reach between exponentials."""
_RAGGED_STORY = """A list of items says which block of which slot's queries comes next: single
queries in one kernel, chunks in another. The pages that a block sees are copied block by block
into one of two buffers, nothing beyond them; keys and values of a group come from the same words.
Results go to the tokens' own rows; rows of no slot stay zero."""
_STORY = """Pools stay in HBM. The pages of a sequence are copied block by block into one of two
buffers; the next block, also of the next sequence, is on its way while one is used. Nothing
beyond a length is read, neither pages nor entries of the table."""


def plans(info: TaskInfo, target: Target) -> list[Plan]:
    """Strategies for paged attention; raises Unsupported for any other program."""
    if any(node.op == "scan" for node in info.graph.nodes):
        return [_ragged_plan(info, match_ragged(info), target)]
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
    limit = int(target.vmem_bytes * VMEM_SHARE)
    if plan.strategy == RAGGED:
        r = match_ragged(info)
        return ragged_module(info, r, _ragged_tunables(info, r), limit, _RAGGED_STORY)
    d = match(info)
    return decode_module(info, d, tunables(info, d, target), limit, _STORY)


def _ragged_plan(info: TaskInfo, r: Ragged, target: Target) -> Plan:
    tokens, heads, width = info.inputs[r.queries].shape
    page, pages = info.inputs[r.pool].shape[1], info.inputs[r.table].shape[1]
    flops = 4.0 * tokens * heads * width * page * pages * SHORT
    pool = info.inputs[r.pool]
    moved = math.prod(pool.shape) * itemsize(pool.dtype) * SHORT
    seconds = max(flops / (RAGGED_MXU_SHARE * target.bf16_flops), memory_seconds(moved, target))
    reason = (
        "each slot's own pages are read once per block of its queries; decodes and chunks of"
        f" prompts have kernels of their own ({seconds * 1e6:.0f} us at half-full tables)"
    )
    return Plan("paged", RAGGED, reason, {}, seconds)


def _ragged_tunables(info: TaskInfo, r: Ragged) -> TunableSpace:
    page, pages = info.inputs[r.pool].shape[1], info.inputs[r.table].shape[1]
    blocks = tuple(dict.fromkeys(min(max(1, n // page), pages) for n in POSITIONS))
    return {"block_q": (128, 64), "block_pages": blocks[:2], "decode_pages": blocks}


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
