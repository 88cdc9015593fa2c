"""Strategies for attention, and their tunables."""

from __future__ import annotations

import math

from maxkernel.engineers.builtin.attention.emit import attention_module
from maxkernel.engineers.builtin.attention.few import few_module, side_by_side
from maxkernel.engineers.builtin.attention.match import Attention, match
from maxkernel.engineers.builtin.attention.walk import Walk
from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.costs import itemsize, memory_seconds
from maxkernel.engineers.builtin.terms import Program
from maxkernel.targets import Target
from maxkernel.types import Plan, TaskInfo, TunableSpace

SWEEP = "running softmax over blocks of keys, a head's keys resident in VMEM"
BAND = "each strip of queries with its whole window of keys at once"
STREAM = "running softmax over blocks of keys that stream from HBM"
FEW = "few queries: some heads side by side, blocks of their keys stream from HBM"
BAND_LIMIT = 2048
"""Largest window that is held at once: scores of a strip stay a few MiB."""
RESIDENT_SHARE = 0.5
"""Of VMEM that keys and values of a head may take, with both buffers and the widened values."""
LONG_SHARE = 0.2
"""Of VMEM from which on streaming them may pay: less room is left for blocks of queries."""
VMEM_SHARE = 0.94
MXU_SHARE = 0.5
"""Of the matrix unit's peak that the sweep reaches: exponentials take turns with products."""
WALKS: dict[str, Walk] = {SWEEP: "sweep", BAND: "band", STREAM: "stream", FEW: "few"}
_STORIES = {
    SWEEP: "Keys and values of a head stay in VMEM. A block of queries walks the blocks of keys"
    " that it sees;\nmasks are evaluated only where a block crosses the edge of what is visible.",
    FEW: "Some heads meet one block of their keys after the other; the heads overlap.",
    STREAM: "A block of queries meets one block of keys after the other; what it has seen stays in"
    " VMEM. Blocks\nthat are not visible are neither fetched nor computed.",
    BAND: "Keys and values of a head stay in VMEM. A strip of queries meets all keys of its window"
    " at once,\nso nothing is rescaled.",
}


def plans(info: TaskInfo, program: Program, target: Target) -> list[Plan]:
    """Strategies for attention; raises Unsupported for any other program."""
    a = match(program)
    resident = _resident_bytes(a) / target.vmem_bytes
    few = [_plan(a, FEW, target)] if side_by_side(a) else []
    if resident > RESIDENT_SHARE:
        return few or [_plan(a, STREAM, target)]
    found = [*few, _plan(a, SWEEP, target)]
    if resident > LONG_SHARE and not a.k.parts and a.shared is None:
        found.append(_plan(a, STREAM, target))
    if a.mask.window is not None and a.mask.window <= BAND_LIMIT:
        found.insert(0, _plan(a, BAND, target))
    return found


def implement(info: TaskInfo, program: Program, plan: Plan, target: Target) -> str:
    """Source for one of this family's plans."""
    a, walk = match(program), WALKS[plan.strategy]
    limit = int(target.vmem_bytes * VMEM_SHARE)
    space = tunables(a, walk, target)
    if walk == "few":
        return few_module(info, a, space, limit, _STORIES[FEW])
    return attention_module(info, a, walk, space, limit, _STORIES[plan.strategy])


def tunables(a: Attention, walk: Walk, target: Target) -> TunableSpace:
    """Heights of a block of queries (and width of a block of keys), and of the strips in which a
    block on the diagonal is worked on.

    A block's scores are float32 and live about three times over.
    """
    if walk == "few":
        return _few(a, target)
    if walk == "stream":
        return _streamed(a, target)
    if walk == "band":
        return {"block": (1024, 2048, 512), "strips": (4, 8, 2)}
    free = target.vmem_bytes * VMEM_SHARE - _resident_bytes(a)
    extra = sum(2 * a.sizes[2] * itemsize(e.use.dtype) for e in a.extras if e.rows and e.cols)
    blocks = [b for b in (1024, 2048, 512, 256, 128) if 12 * b * b + b * extra <= free]
    if not blocks:
        raise Unsupported("no block of scores fits in VMEM")
    strips: TunableSpace = {"strips": (2, 4, 8)} if a.mask.causal else {}
    return {"block": tuple(blocks[:3]), **strips}


def _few(a: Attention, target: Target) -> TunableSpace:
    """Heads side by side and blocks of keys, both buffers of which fit in VMEM."""
    *_, width, value_width = a.sizes
    key = 2 * (max(width, 128) + max(value_width, 128)) * itemsize(a.v.use.dtype)
    widths = [k for k in (1024, 2048, 512) if 8 * k * key <= VMEM_SHARE * target.vmem_bytes / 2]
    return {"together": (8, 4, 2), "key_block": tuple(widths or [256])}


def _streamed(a: Attention, target: Target) -> TunableSpace:
    """Blocks of queries and of keys; the space of the pair that fits first."""
    if a.k.parts or a.shared is not None:
        raise Unsupported("keys that stream are one array, and no array of scores is shared")
    *_, width, value_width = a.sizes
    wide = max(width, 128) + max(value_width, 128)
    held = sum(2 * itemsize(e.use.dtype) for e in a.extras if e.rows and e.cols)

    def fits(block: int, keys: int) -> bool:
        arrays = 2 * wide * itemsize(a.v.use.dtype) * (block + keys)
        return arrays + (12 + held) * block * keys <= VMEM_SHARE * target.vmem_bytes

    sizes = [b for b in (2048, 1024, 512, 256, 128) if fits(b, min(b, 1024))]
    if not sizes:
        raise Unsupported("no block of scores fits in VMEM")
    top = sizes[0]
    widths = [k for k in (1024, 2048, 512, 256, 128) if fits(top, k)]
    return {"block": tuple(sizes[:3]), "key_block": tuple(widths[:3])}


def _resident_bytes(a: Attention) -> int:
    _, _, keys, width, value_width = a.sizes
    lanes = -(-(value_width + 1) // 128) * 128
    stored = max(width, 128) * 2 + max(value_width, 128) * 2 + lanes
    if a.k.parts:
        stored += sum(max(a.program.extent(p.cols), 128) * 2 for p in a.k.parts) - max(width, 128)
    return keys * stored * itemsize(a.v.use.dtype)


def _plan(a: Attention, strategy: str, target: Target) -> Plan:
    heads, rows, keys, width, value_width = a.sizes
    seen = float(keys)
    if a.mask.causal:
        seen = min(keys / 2 + 512, float((a.mask.window or keys) + 512))
    flops = 2.0 * heads * rows * seen * (width + value_width)
    compute = flops / (target.bf16_flops * MXU_SHARE)
    moved = 1.0 * heads * rows * itemsize(a.q.use.dtype)
    times = 1.0 * a.kv_heads * keys
    if strategy == STREAM:
        times = heads * math.ceil(rows / float(_streamed(a, target)["block"][0])) * seen
    moved = (width + value_width) * (moved + times * itemsize(a.v.use.dtype))
    traffic = memory_seconds(moved, target)
    hidden = "only visible keys are read" if a.mask.causal else "every key is visible"
    reason = (
        f"scores never leave VMEM and {hidden}; bound by the matrix and vector units"
        f" ({compute * 1e6:.0f} us), traffic takes {traffic * 1e6:.0f} us"
    )
    return Plan("attention", strategy, reason, {}, max(compute, traffic))
