"""Strategies for attention, and their tunables."""

from __future__ import annotations

from maxkernel.engineers.builtin.attention.emit import attention_module
from maxkernel.engineers.builtin.attention.match import Attention, match
from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.costs import itemsize, memory_seconds
from maxkernel.engineers.builtin.terms import Program
from maxkernel.targets import Target
from maxkernel.types import Plan, TaskInfo, TunableSpace

SWEEP = "running softmax over blocks of keys, a head's keys resident in VMEM"
BAND = "each strip of queries with its whole window of keys at once"
BAND_LIMIT = 2048
"""Largest window that is held at once: scores of a strip stay a few MiB."""
RESIDENT_SHARE = 0.5
"""Of VMEM that keys and values of a head may take, with both buffers and the widened values."""
VMEM_SHARE = 0.94
MXU_SHARE = 0.5
"""Of the matrix unit's peak that the sweep reaches: exponentials take turns with products."""
_STORIES = {
    SWEEP: "Keys and values of a head stay in VMEM. A block of queries walks the blocks of keys"
    " that it sees;\nmasks are evaluated only where a block crosses the edge of what is visible.",
    BAND: "Keys and values of a head stay in VMEM. A strip of queries meets all keys of its window"
    " at once,\nso nothing is rescaled.",
}


def plans(info: TaskInfo, program: Program, target: Target) -> list[Plan]:
    """Strategies for attention; raises Unsupported for any other program."""
    a = match(program)
    if _resident_bytes(a) > RESIDENT_SHARE * target.vmem_bytes:
        raise Unsupported("keys and values of a head do not fit in VMEM")
    found = [_plan(a, SWEEP, target)]
    if a.mask.window is not None and a.mask.window <= BAND_LIMIT:
        found.insert(0, _plan(a, BAND, target))
    return found


def implement(info: TaskInfo, program: Program, plan: Plan, target: Target) -> str:
    """Source for one of this family's plans."""
    a = match(program)
    band = plan.strategy == BAND
    limit = int(target.vmem_bytes * VMEM_SHARE)
    space = tunables(a, band, target)
    return attention_module(info, a, band, space, limit, _STORIES[plan.strategy])


def tunables(a: Attention, band: bool, target: Target) -> TunableSpace:
    """Heights of a block of queries (and width of a block of keys), and of the strips in which a
    block on the diagonal is worked on.

    A block's scores are float32 and live about three times over.
    """
    if band:
        return {"block": (1024, 2048, 512), "strips": (4, 8, 2)}
    free = target.vmem_bytes * VMEM_SHARE - _resident_bytes(a)
    extra = sum(2 * a.sizes[2] * itemsize(e.use.dtype) for e in a.extras if e.rows and e.cols)
    blocks = [b for b in (1024, 2048, 512, 256, 128) if 12 * b * b + b * extra <= free]
    if not blocks:
        raise Unsupported("no block of scores fits in VMEM")
    strips: TunableSpace = {"strips": (2, 4, 8)} if a.mask.causal else {}
    return {"block": tuple(blocks[:3]), **strips}


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
    moved = heads * rows * (width + value_width) * itemsize(a.q.use.dtype)
    traffic = memory_seconds(2.0 * moved, target)
    hidden = "only visible keys are read" if a.mask.causal else "every key is visible"
    reason = (
        f"scores never leave VMEM and {hidden}; bound by the matrix and vector units"
        f" ({compute * 1e6:.0f} us), traffic takes {traffic * 1e6:.0f} us"
    )
    return Plan("attention", strategy, reason, {}, max(compute, traffic))
