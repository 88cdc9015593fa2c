"""Strategies for grouped products, and their tunables."""

from __future__ import annotations

from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.costs import itemsize, memory_seconds
from maxkernel.engineers.builtin.grouped.emit import grouped_module
from maxkernel.engineers.builtin.grouped.match import Stage, match
from maxkernel.targets import Target
from maxkernel.types import Plan, TaskInfo, TunableSpace

VISITS = "a list of visits, a group's weights held while its tiles of rows pass"
VMEM_SHARE = 0.94
BLOCK_SHARE = 0.75
"""Of VMEM that blocks may take; the rest holds products and what the compiler needs."""
ROWS = (256, 128, 512)
MXU_SHARE = 0.85
"""Of the matrix unit's peak that a tile with the whole contraction reaches."""
LANES = 128
_STORY = """Rows are sorted by group. A list of visits, prefetched as scalars, says which tile of
rows meets which group; tiles at a group's end are visited once per group, and each visit writes
only its group's rows. The contraction is not split: a block of weights stays in VMEM for all
tiles of its group, and is read once."""


def plans(info: TaskInfo, target: Target) -> list[Plan]:
    """Strategies for grouped products; raises Unsupported for any other program."""
    stages = match(info)
    space = tunables(info, stages, target)
    graph = info.graph
    seconds = 0.0
    for i, stage in enumerate(stages):
        (m, k), (groups, _, n) = _shape(info, stage.rows), _shape(info, stage.weights[0])
        count = len(stage.weights)
        block = int(space[_name(len(stages), i)][0])
        visits = m + groups * ROWS[0] / 2
        compute = 2.0 * visits * k * n * count / (MXU_SHARE * target.bf16_flops)
        item = itemsize(graph.values[stage.rows].dtype)
        moved = groups * k * n * count * item + m * k * item * -(-n // block)
        moved += m * n * itemsize(stage.epilogue.dtype)
        seconds += max(compute, memory_seconds(moved, target))
    fused = sum(len(s.weights) > 1 or not s.epilogue.plain for s in stages)
    reason = (
        f"{len(stages)} grouped products as kernels"
        + (f", {fused} with what follows fused" if fused else "")
        + f"; weights are read once ({seconds * 1e6:.0f} us)"
    )
    return [Plan("grouped", VISITS, reason, {}, seconds)]


def implement(info: TaskInfo, plan: Plan, target: Target) -> str:
    """Source for one of this family's plans."""
    stages = match(info)
    space = tunables(info, stages, target)
    return grouped_module(info, stages, space, int(target.vmem_bytes * VMEM_SHARE), _STORY)


def tunables(info: TaskInfo, stages: list[Stage], target: Target) -> TunableSpace:
    """Rows of a tile, and columns of a block of weights per stage."""
    space: TunableSpace = {"block_rows": ROWS}
    room = BLOCK_SHARE * target.vmem_bytes
    for i, stage in enumerate(stages):
        space[_name(len(stages), i)] = _columns(info, stage, room)
    return space


def _columns(info: TaskInfo, stage: Stage, room: float) -> tuple[int, ...]:
    """Widths that divide the columns evenly, the largest that fits first."""
    k, n = _shape(info, stage.weights[0])[1:]
    item = itemsize(info.graph.values[stage.rows].dtype)
    found: list[int] = []
    for parts in range(1, n // LANES + 2):
        width = min(n, -(-n // parts // LANES) * LANES)
        block = 2 * len(stage.weights) * k * width * item
        tile = ROWS[0] * (2 * k * item + width * (2 * 4 + 4 * len(stage.weights)))
        if block + tile <= room and width not in found:
            found.append(width)
        if len(found) == 3:
            break
    if not found:
        raise Unsupported("a block of weights over the whole contraction does not fit in VMEM")
    return tuple(found)


def _name(count: int, stage: int) -> str:
    return f"block_columns_{stage + 1}" if count > 1 else "block_columns"


def _shape(info: TaskInfo, value: int) -> tuple[int, ...]:
    return info.graph.values[value].shape
