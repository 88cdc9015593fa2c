"""The strategy for results without channels or pixels: columns in lanes, reductions in the block.

Weights stream through the matrix unit against the taps of a row group; nothing is turned round,
since images lie in memory with their columns in lanes.
"""

from __future__ import annotations

import math

from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.conv.match import ConvProgram
from maxkernel.engineers.builtin.conv.planes_emit import GROUP, ROWS, module_text
from maxkernel.engineers.builtin.costs import itemsize, memory_seconds, vector_cycles
from maxkernel.targets import Target
from maxkernel.types import Plan, TaskInfo, TunableSpace

LANES = 128
VMEM_SHARE = 0.8
"""Of VMEM that blocks and values may take; the rest is the compiler's."""
IMAGES = (2, 4)
STEP_GROUPS = (8, 4)
TURN_CYCLES = 1.8e-3
"""Per element of the images, to lay out taps of three columns (simulated v6e)."""
PRODUCT_SHARE = 0.65
"""Of the vector units' peak that products with their epilogue reach (simulated v6e)."""
SUM_OPERATIONS = 3
"""Vector operations per pixel and statistic: a difference, a square, a sum."""


def plan(conv: ConvProgram, target: Target) -> Plan:
    """The plan with its estimate; raises Unsupported with the reason."""
    _check(conv)
    if not tunables(conv, target):
        raise Unsupported("no block of this convolution fits in VMEM")
    products, turning, traffic = _costs(conv, target)
    work = conv.sweeps * products + turning
    what = "pooled" if conv.pooled else "reduced over channels"
    reason = (
        f"the result is {what} in VMEM: {products * 1e6:.0f} us of products and epilogue a sweep,"
        f" {turning * 1e6:.0f} us to lay out taps, {traffic * 1e6:.0f} us of traffic"
    )
    if conv.sweeps > 1:
        reason += f"; {conv.sweeps} sweeps over an image that is in VMEM anyway"
    return Plan("conv", name_of(conv), reason, {}, max(work, traffic))


def name_of(conv: ConvProgram) -> str:
    """What the plan is called."""
    if conv.pooled:
        return "columns in lanes, pooled in VMEM"
    if conv.sweeps == 1:
        return "columns in lanes, channels reduced in the block"
    return "columns in lanes, statistics first, channels reduced in the block"


def implement(info: TaskInfo, conv: ConvProgram, target: Target) -> str:
    """Source for the plan."""
    return module_text(info, conv, tunables(conv, target), int(target.vmem_bytes * 0.94))


def tunables(conv: ConvProgram, target: Target) -> TunableSpace:
    """Images of a block, and groups of rows that are computed side by side; empty when no block
    fits in VMEM."""
    limit = target.vmem_bytes * VMEM_SHARE
    images = tuple(n for n in IMAGES if vmem_bytes(conv, n) <= limit)
    return {"images": images, "step_groups": STEP_GROUPS} if images else {}


def vmem_bytes(conv: ConvProgram, images: int) -> float:
    """Of blocks (held twice), taps, statistics and the values of two groups."""
    channels, filters, (tall, wide), (kh, kw) = _sizes(conv)
    x = channels * tall * wide * itemsize(conv.x.dtype)
    taps = (tall + GROUP + kh) * kw * channels * wide * 2
    sums = 4 * 2 * len(conv.statistics) * filters * wide
    found = 0 if conv.pooled else 3 * 4 * tall * wide
    span = GROUP + kh
    matrix = GROUP * filters * span * kw * channels * 2
    values = 4 * GROUP * filters * wide * max(STEP_GROUPS)
    return images * (2 * x + taps + sums + found) + 2 * matrix + values


def _check(conv: ConvProgram) -> None:
    if len(conv.conv.lhs) != 4:
        raise Unsupported("reductions over pixels or channels of a volume")
    if conv.across:
        raise Unsupported("statistics over all images, and a result without pixels or channels")
    if conv.whole:
        raise Unsupported("the result is of the convolution's size")
    _, filters, _, _ = _sizes(conv)
    if filters % 8:
        raise Unsupported(f"{filters} filters do not fill registers of 8")
    if not conv.pooled and 1 in conv.kept:
        raise Unsupported("the result has some dimensions of the images and lacks others")


def _sizes(conv: ConvProgram) -> tuple[int, int, tuple[int, int], tuple[int, int]]:
    """(channels, filters, (rows, columns) of the images, (rows, columns) of the window), padded."""
    _, channels, *pixels = conv.x.shape
    kh, kw = (conv.w.shape[i] for i in conv.conv.rhs[2:])
    tall, wide = (n + sum(pad) for n, pad in zip(pixels, conv.conv.padding, strict=True))
    tall, wide = math.ceil(tall / ROWS) * ROWS, math.ceil(wide / LANES) * LANES
    return math.ceil(channels / 8) * 8, conv.w.shape[conv.conv.rhs[0]], (tall, wide), (kh, kw)


def _costs(conv: ConvProgram, target: Target) -> tuple[float, float, float]:
    """Seconds of one sweep's products and vector work, of laying out taps, and of all traffic."""
    channels, filters, (tall, wide), (kh, kw) = _sizes(conv)
    images = conv.x.shape[0]
    deep = math.ceil((GROUP + kh - 1) * kw * channels / target.mxu_size) * target.mxu_size
    pixels = images * tall * wide
    flops = 2 * pixels * filters * deep
    elements = pixels * filters
    vector = vector_cycles(conv.program, conv.terms, elements) / target.clock_hz
    vector += SUM_OPERATIONS * len(conv.statistics) * elements / (4096 * target.clock_hz)
    products = max(flops / target.bf16_flops, vector / conv.sweeps) / PRODUCT_SHARE
    turning = pixels * channels * kw / 3 * TURN_CYCLES / target.clock_hz
    read = math.prod(conv.x.shape) * itemsize(conv.x.dtype)
    written = math.prod(conv.program.outputs[0].shape) * 4
    return products, turning, memory_seconds(read + written, target)
