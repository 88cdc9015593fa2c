"""The strategy for volumes with few channels whose pixels are pooled: images in lanes.

Every column of an image is then a row of registers, so that a window is an address, and nothing is
added up across lanes.
"""

from __future__ import annotations

import math

from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.conv import volumes_body
from maxkernel.engineers.builtin.conv.emit import arranged, frame
from maxkernel.engineers.builtin.conv.match import ConvProgram
from maxkernel.engineers.builtin.costs import itemsize, memory_seconds, vector_cycles
from maxkernel.engineers.builtin.text import broken, call, compiler_params, doc, sequence
from maxkernel.targets import Target
from maxkernel.types import Plan, TaskInfo

LANES = 128
WINDOW = 8
"""Columns of the input that one product reads: the sublanes of a register."""
VMEM_SHARE = 0.8
STEP_SHARE = 0.4
"""Of the matrix unit's peak that products of 128 columns reach (simulated v6e)."""
STORY = """Images lie in lanes, columns in sublanes: a window is an address, and statistics of an
image never cross a lane. A slice is read once and stays until its last tap."""
_BANDED = '''def banded(w, outs):
    """Weights (O, C, depth, rows, cols) as (outs * O, depth * rows * C * WINDOW).

    The products of one matrix are `outs` columns: the filter of each is shifted by one.
    """
    kw = w.shape[4]
    shifted = []
    for col in range(outs):
        pads = [(0, 0)] * 4 + [(col, WINDOW - kw - col)]
        shifted.append(jnp.pad(w, pads))
    matrix = jnp.stack(shifted).transpose(0, 1, 3, 4, 2, 5)
    return matrix.reshape(outs * w.shape[0], -1)
'''


def plan(conv: ConvProgram, target: Target) -> Plan:
    """The plan with its estimate; raises Unsupported with the reason."""
    if not conv.pooled or conv.levels != 1 or conv.across:
        raise Unsupported("a volume whose result is not pooled in one sweep of an image")
    _, filters, pixels, (kd, kh, kw), (deep, tall, wide) = _sizes(conv)
    if filters % 8 or kw > WINDOW:
        raise Unsupported("filters that do not fill registers of 8, or a window wider than 8")
    channels = conv.x.shape[1]
    slices = channels * tall * wide * LANES * (kd * 4 + 2 * itemsize(conv.x.dtype))
    if slices > target.vmem_bytes * VMEM_SHARE:
        raise Unsupported("no slice of the volumes fits in VMEM")
    images = math.ceil(conv.x.shape[0] / LANES) * LANES
    taps = math.ceil(kd * kh * channels * WINDOW / target.mxu_size) * target.mxu_size
    flops = 2 * images * pixels * WINDOW / (WINDOW - kw + 1) * filters * taps
    vector = vector_cycles(conv.program, conv.terms, images * pixels * filters) / target.clock_hz
    work = flops / (STEP_SHARE * target.bf16_flops) + vector
    traffic = memory_seconds(images * channels * deep * tall * wide * 2, target)
    reason = (
        f"few channels of {images} images: {work * 1e6:.0f} us of products and sums, "
        f"{traffic * 1e6:.0f} us of traffic"
    )
    if conv.collapsed:
        reason += "; the mean of the normalised values follows from the means of the channels"
    return Plan("conv", name_of(conv), reason, {}, max(work, traffic))


def name_of(conv: ConvProgram) -> str:
    """What the plan is called."""
    return "images in lanes, " + (
        "the mean of normalised values from statistics alone" if conv.collapsed else "pooled"
    )


def _sizes(
    conv: ConvProgram,
) -> tuple[int, int, int, tuple[int, int, int], tuple[int, int, int]]:
    """(images, filters, pixels of the result, window, padded volume)."""
    deep, tall, wide = (
        n + sum(pad) for n, pad in zip(conv.x.shape[2:], conv.conv.padding, strict=True)
    )
    kd, kh, kw = (conv.w.shape[i] for i in conv.conv.rhs[2:])
    pixels = (deep - kd + 1) * (tall - kh + 1) * (wide - kw + 1)
    filters = conv.w.shape[conv.conv.rhs[0]]
    wide = math.ceil(wide / WINDOW) * WINDOW
    return conv.x.shape[0], filters, pixels, (kd, kh, kw), (deep, tall, wide)


def implement(info: TaskInfo, conv: ConvProgram, target: Target) -> str:
    """Source for the plan."""
    title = "Convolution of volumes, pooled."
    module, names, arguments, arrays, params, refs = frame(
        info, conv, volumes_body.TAKEN, title, STORY, {}
    )
    text, sums = volumes_body.body(conv, refs, module, names)
    module.helpers |= {_BANDED}
    module.constants["LANES"] = ("128", "")
    module.constants["WINDOW"] = (str(WINDOW), "columns of the input in one product")
    module.constants["VMEM_LIMIT_BYTES"] = (f"{int(target.vmem_bytes * 0.94) >> 20} * 2**20", "")
    x, w = arrays[conv.x.index], arrays[conv.w.index]
    lines = [
        call("kernel", arguments, 0, "def ", ":"),
        doc("Reads the sizes from the inputs' shapes and fits the blocks to them.", 4),
        *(f"    {line}".rstrip() for line in _prepared(conv, x, w)),
        *(_IN_LANES if params else []),
        _call(conv, params, sums, x),
        f"    return {arranged('out', (1, 0), conv) if 1 in conv.kept else 'out[0]'}",
    ]
    module.functions = [text, "\n".join(lines)]
    return module.render()


_IN_LANES = [
    "    def in_lanes(values):",
    '        """One value per channel, in every lane."""',
    "        values = values.astype(jnp.float32).reshape(-1, 1)",
    "        return jnp.broadcast_to(values, (filters, LANES))",
    "",
]


def _prepared(conv: ConvProgram, x: str, w: str) -> list[str]:
    rhs = conv.conv.rhs
    turned = "" if rhs == (0, 1, 2, 3, 4) else f".transpose({', '.join(map(str, rhs))})"
    deep, tall, wide = conv.conv.padding
    return [
        f"weights = {w}{turned}.astype(jnp.bfloat16)",
        "filters, channels, kd, kh, kw = weights.shape",
        f"pads = ((0, 0), {deep}, {tall}, {wide}, (0, 0))",
        f"volumes = jnp.pad({x}.transpose(1, 2, 3, 4, 0), pads)",
        "_, depth, tall, width, count = volumes.shape",
        "rows, cols, outs = tall - kh + 1, width - kw + 1, WINDOW - kw + 1",
        "",
        "# The last window may reach beyond the last column.",
        "last = (pl.cdiv(cols, outs) - 1) * outs + WINDOW",
        "pads = ((0, 0), (0, 0), (0, 0), (0, max(0, last - width)), (0, 0))",
        "volumes = jnp.pad(volumes, pads)",
        "width = volumes.shape[3]",
        "matrix = banded(weights, outs)",
        "",
    ]


def _call(conv: ConvProgram, params: list[str], sums: list[str], x: str) -> str:
    wide = "filters" if 1 in conv.kept else "1"
    out_dtype = conv.program.outputs[0].dtype
    same = f"{x}.dtype" if out_dtype == conv.x.dtype else f"jnp.{out_dtype}"
    bound = ["kd=kd", "kh=kh", "outs=outs", "rows=rows", "cols=cols", "last=depth - 1"]
    block = "(channels, 1, tall, width, LANES)"
    specs = [
        broken(f"pl.BlockSpec({block}, lambda n, i: (0, i, 0, 0, n))", 12),
        "pl.BlockSpec(matrix.shape, lambda n, i: (0, 0))",
        *["pl.BlockSpec((filters, LANES), lambda n, i: (0, 0))" for _ in params],
    ]
    memory = [
        "pltpu.VMEM((kd, channels, tall, width, LANES), jnp.float32)",
        *["pltpu.VMEM((filters, LANES), jnp.float32)" for _ in sums],
    ]
    pieces = [
        call("functools.partial", ["body", *bound], 8),
        "grid=(pl.cdiv(count, LANES), depth)",
        sequence(specs, 8, "in_specs="),
        f"out_specs=pl.BlockSpec(({wide}, LANES), lambda n, i: (0, n))",
        f"out_shape=jax.ShapeDtypeStruct(({wide}, count), {same})",
        sequence(memory, 8, "scratch_shapes="),
        compiler_params(["arbitrary", "arbitrary"]),
    ]
    run = call("pl.pallas_call", pieces, 4, "out = ")
    taken = ["volumes", "matrix", *(f"in_lanes({p})" for p in params)]
    return run.removesuffix("    )") + call(")", taken, 4)
