"""Strategies for a convolution, what they cost by estimate, and their tunables."""

from __future__ import annotations

import math
from dataclasses import dataclass

from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.conv import planes, volumes
from maxkernel.engineers.builtin.conv.emit import IMAGES, ROWS, module_text
from maxkernel.engineers.builtin.conv.match import ConvProgram, match
from maxkernel.engineers.builtin.costs import itemsize, memory_seconds, vector_cycles
from maxkernel.engineers.builtin.terms import Program
from maxkernel.targets import Target
from maxkernel.types import Plan, TaskInfo, TunableSpace

LANES = 128
VMEM_SHARE = 0.85
"""Of VMEM that blocks and values may take; the rest is the compiler's."""
TURN_CYCLES = 2.8e-3
"""Per element of the images: two exchanges of sublanes and one transposition (simulated v6e)."""
PRODUCT_SHARE = 0.75
"""Of the matrix unit's peak that the products reach (simulated v6e)."""
CHUNK_COLS = (128, 64, 32)
BLOCK_ROWS = (16, 32)
SUM_OPERATIONS = 4
"""Vector operations per pixel and statistic: a difference, a choice, a square, a sum."""


@dataclass(frozen=True)
class Shape:
    """Sizes of a convolution as the kernel sees it: images are volumes, channels are padded."""

    images: int
    channels: int
    filters: int
    pixels: tuple[int, int, int]
    """(depth, height, width) of the images, padding included."""
    taps: tuple[int, int, int]
    group: int
    """Rows whose channels lie side by side in lanes."""

    @property
    def out(self) -> tuple[int, ...]:
        """(depth, height, width) of the result."""
        return tuple(n - k + 1 for n, k in zip(self.pixels, self.taps, strict=True))

    @property
    def near(self) -> int:
        """Groups of input rows that one group of output rows reads."""
        return math.ceil((self.group + self.taps[1] - 1) / self.group)

    @property
    def lanes(self) -> int:
        """Lanes of the products."""
        return self.group * self.filters


def plans(info: TaskInfo, program: Program, target: Target) -> list[Plan]:
    """The strategy for a convolution; raises Unsupported for any other program."""
    conv = match(program)
    if not conv.whole:
        flat = len(conv.conv.lhs) == 4
        return [planes.plan(conv, target) if flat else volumes.plan(conv, target)]
    if conv.folds or any(program[s.term].op in ("amax", "amin") for s in conv.statistics):
        raise Unsupported("a reduction over channels, or a maximum, and a result of full size")
    shape = shape_of(conv)
    if not tunables(conv, shape, target):
        raise Unsupported("no block of this convolution fits in VMEM")
    products, turning, traffic = _costs(conv, shape, target)
    work = conv.sweeps * (products + turning)
    limit = "HBM" if traffic > work else "the matrix unit"
    reason = (
        f"{shape.group} rows of {shape.channels} channels fill the lanes, images the sublanes:"
        f" {products * 1e6:.0f} us of products, {turning * 1e6:.0f} us to turn the images,"
        f" {traffic * 1e6:.0f} us of traffic: bound by {limit}"
    )
    if conv.sweeps > 1:
        reason += (
            f". Computed {conv.sweeps} times, which costs less than writing and reading it again"
        )
    return [Plan("conv", name_of(conv), reason, {}, max(work, traffic))]


def implement(info: TaskInfo, program: Program, plan: Plan, target: Target) -> str:
    """Source for this family's plan."""
    conv = match(program)
    if not conv.whole:
        other = planes.implement if len(conv.conv.lhs) == 4 else volumes.implement
        return other(info, conv, target)
    space = tunables(conv, shape_of(conv), target)
    return module_text(info, conv, space, int(target.vmem_bytes * 0.94))


def name_of(conv: ConvProgram) -> str:
    """What the plan is called."""
    if conv.sweeps == 1:
        return "channels in lanes, products over taps"
    return "channels in lanes, statistics first, then the convolution again"


def shape_of(conv: ConvProgram) -> Shape:
    """Sizes at full size; raises Unsupported where the lag between blocks would be too short."""
    images, channels, *pixels = conv.x.shape
    taps = [conv.w.shape[i] for i in conv.conv.rhs[2:]]
    padded = [n + sum(pad) for n, pad in zip(pixels, conv.conv.padding, strict=True)]
    if len(pixels) == 2:
        taps, padded = [1, *taps], [1, *padded]
        if taps[1] > ROWS:
            raise Unsupported(f"a window of {taps[1]} rows is higher than a block")
    if any(n < k for n, k in zip(padded, taps, strict=True)):
        raise Unsupported("the window is larger than the images")
    wide = math.ceil(channels / LANES) * LANES
    if channels < LANES:
        wide = max(ROWS, 1 << (channels - 1).bit_length())
    deep, tall, long = padded
    kd, kh, kw = taps
    filters = conv.w.shape[conv.conv.rhs[0]]
    group = max(1, LANES // wide)
    return Shape(images, wide, filters, (deep, tall, long), (kd, kh, kw), group)


def tunables(conv: ConvProgram, shape: Shape, target: Target) -> TunableSpace:
    """Chunks of columns, heights of blocks (images only, volumes pass slice by slice); those that
    fit in VMEM. Empty when none does."""
    limit = target.vmem_bytes * VMEM_SHARE
    flat = len(conv.conv.lhs) == 4
    heights = BLOCK_ROWS if flat else (math.ceil(shape.pixels[1] / ROWS) * ROWS,)
    first = next(
        ((h, c) for h in heights for c in CHUNK_COLS if vmem_bytes(conv, shape, h, c) <= limit),
        None,
    )
    if first is None:
        return {}
    chunks = [c for c in CHUNK_COLS if c <= first[1]]
    rows = [h for h in heights if vmem_bytes(conv, shape, h, first[1]) <= limit]
    space: TunableSpace = {"chunk_cols": tuple(chunks)}
    return {"block_rows": tuple(rows), **space} if flat else space


def vmem_bytes(conv: ConvProgram, shape: Shape, rows: int, chunk: int) -> float:
    """Of blocks (held twice), turned rows and the values of one chunk."""
    kd, _, kw = shape.taps
    width = math.ceil(shape.pixels[2] / LANES) * LANES
    cols = shape.out[2]
    across = shape.group * shape.channels
    slots = (2 if kd == 1 and len(conv.conv.lhs) == 4 else kd + 1) * rows // shape.group
    x = IMAGES * shape.channels * rows * width * itemsize(conv.x.dtype)
    filters = math.ceil(shape.filters / LANES) * LANES
    out = rows * cols * IMAGES * filters * itemsize(conv.program.outputs[0].dtype)
    turned = slots * width * IMAGES * across * 2
    matrices = kd * kw * shape.near * across * shape.lanes * 2
    lanes = math.ceil(shape.lanes / LANES) * LANES
    values = 4 * min(chunk, cols) * IMAGES * lanes * 4
    return 2 * (x + out + matrices) + turned + values


def _costs(conv: ConvProgram, shape: Shape, target: Target) -> tuple[float, float, float]:
    """Seconds of one sweep's products and turning, and of all traffic."""
    kd, _, kw = shape.taps
    deep, tall, wide = shape.out
    images = math.ceil(shape.images / IMAGES) * IMAGES
    rows = images * deep * math.ceil(tall / shape.group) * wide

    def whole(n: int) -> int:
        return math.ceil(n / target.mxu_size) * target.mxu_size

    flops = 2 * rows * kd * kw * whole(shape.near * shape.group * shape.channels)
    flops *= whole(shape.lanes)
    elements = rows * shape.lanes
    vector = vector_cycles(conv.program, conv.terms, elements) / target.clock_hz
    vector += SUM_OPERATIONS * len(conv.statistics) * elements / (4096 * target.clock_hz)
    products = max(flops / target.bf16_flops, vector) / PRODUCT_SHARE
    pixels = images * shape.channels * math.prod(shape.pixels)
    read = pixels * itemsize(conv.x.dtype) * conv.sweeps
    written = math.prod(shape.out) * images * max(shape.filters, LANES)
    written *= itemsize(conv.program.outputs[0].dtype)
    turning = pixels * TURN_CYCLES / target.clock_hz
    return products, turning, memory_seconds(read + written, target)
