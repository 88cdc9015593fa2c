"""Strategies for grouped products, and their tunables."""

from __future__ import annotations

import math

from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.costs import itemsize, memory_seconds
from maxkernel.engineers.builtin.grouped.coded import Coded
from maxkernel.engineers.builtin.grouped.emit import grouped_module
from maxkernel.engineers.builtin.grouped.match import Stage, read
from maxkernel.targets import Target
from maxkernel.types import Plan, TaskInfo, TunableSpace

VISITS = "a list of visits, a group's weights held while its tiles of rows pass"
VMEM_SHARE = 0.94
BLOCK_SHARE = 0.75
"""Of VMEM that blocks may take; the rest holds products and what the compiler needs."""
ROWS = (256, 128, 512)
MXU_SHARE = 0.85
"""Of the matrix unit's peak that a tile with the whole contraction reaches."""
LANES, SUBLANES = 128, 8
VECTOR_SLOTS = 4
"""Vector operations that a bundle holds."""
_STORY = """Rows are sorted by group. A list of visits, prefetched as scalars, says which tile of
rows meets which group; tiles at a group's end are visited once per group, and each visit writes
only its group's rows. The contraction is not split: a block of weights stays in VMEM for all
tiles of its group, and is read once."""
_CODED = """

Weights cross memory as codes. At a group's first visit they are decoded into VMEM, in an order in
which their rows need not be interleaved; the columns of what they multiply come in that order."""

_APART = """

Weights whose columns alternate between two products are multiplied as they lie; even and odd
columns of a tile are told apart in VMEM."""


def plans(info: TaskInfo, target: Target) -> list[Plan]:
    """Strategies for grouped products; raises Unsupported for any other program."""
    info, stages = read(info)
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
        moved += m * n * itemsize(stage.epilogue.dtype) // (2 if stage.apart else 1)
        decoding, saved = _decoding(info, stage, target)
        seconds += max(compute + decoding, memory_seconds(moved - saved, target))
    fused = sum(len(s.epilogue.products) > 1 or not s.epilogue.plain for s in stages)
    coded = sum(any(s.coded) for s in stages)
    reason = (
        f"{len(stages)} grouped products as kernels"
        + (f", {fused} with what follows fused" if fused else "")
        + (f", {coded} decoding weights in VMEM" if coded else "")
        + f"; weights are read once ({seconds * 1e6:.0f} us)"
    )
    return [Plan("grouped", VISITS, reason, {}, seconds)]


def implement(info: TaskInfo, plan: Plan, target: Target) -> str:
    """Source for one of this family's plans."""
    info, stages = read(info)
    space = tunables(info, stages, target)
    story = _STORY + (_CODED if any(any(s.coded) for s in stages) else "")
    story += _APART if any(s.apart for s in stages) else ""
    return grouped_module(info, stages, space, int(target.vmem_bytes * VMEM_SHARE), story)


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
    beside = sum(itemsize(info.graph.values[x.value].dtype) for x in stage.epilogue.extras)
    halves = 2 if stage.apart else 1
    n //= halves
    found: list[int] = []
    for parts in range(1, n // LANES + 2):
        width = min(n, -(-n // parts // LANES) * LANES)
        count = halves * len(stage.weights)
        block = count * k * width * (item if any(stage.coded) else 2 * item)
        block += sum(halves * width * _column_bytes(info, c) for c in stage.coded if c)
        tile = ROWS[0] * (2 * k * item + width * (2 * 4 + 4 * count * halves + 2 * beside))
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


def _column_bytes(info: TaskInfo, coded: Coded) -> int:
    """VMEM that a column of codes and scales takes: two buffers, and the scales as float32."""
    rows = coded.program.extent(coded.rows)
    stored = 2 * rows * itemsize(info.inputs[coded.codes].dtype)
    scales = rows // coded.run
    sizes = [itemsize(info.inputs[array].dtype) for _, array in coded.runs]
    return stored + scales * (2 * sum(sizes) + 4 * len(coded.scales))


def _decoding(info: TaskInfo, stage: Stage, target: Target) -> tuple[float, float]:
    """(seconds of the vector unit, bytes that are read less) where weights are decoded."""
    seconds = saved = 0.0
    for weights, coded in zip(stage.weights, stage.coded, strict=True):
        if coded is None:
            continue
        elements = math.prod(_shape(info, weights))
        steps = len(coded.program.reach([coded.root])) + len(coded.parts)
        rate = LANES * SUBLANES * VECTOR_SLOTS * target.cores * target.clock_hz
        seconds += elements * steps / rate
        read = (coded.codes, *(array for _, array in coded.runs))
        saved += elements * itemsize(info.graph.values[weights].dtype)
        saved -= sum(math.prod(info.inputs[i].shape) * itemsize(info.inputs[i].dtype) for i in read)
    return seconds, saved
