"""The module of a convolution kernel: its `kernel` function, and the whole file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from maxkernel.engineers.builtin.conv import body
from maxkernel.engineers.builtin.conv.body import TAKEN
from maxkernel.engineers.builtin.conv.match import ConvProgram
from maxkernel.engineers.builtin.module import Module, array_names, parameters, plain
from maxkernel.engineers.builtin.text import Names, call, compiler_params, doc, sequence
from maxkernel.types import TaskInfo, TunableSpace

ROWS = 16
"""Rows that are turned at a time: one register of 16-bit values holds as many."""
IMAGES = 16
"""Images of a block, for the same reason."""
_BANDED = '''def banded(w, group, near):
    """Weights (depth, rows, cols, C, O) as (depth * cols, near * group * C, group * O).

    The products of one matrix are `group` output rows side by side: the filter of each
    is shifted down by one more input row.
    """
    depth, kh, kw, channels, filters = w.shape
    span = near * group
    shifted = []
    for row in range(group):
        below = span - kh - row
        shifted.append(jnp.pad(w, ((0, 0), (row, below), (0, 0), (0, 0), (0, 0))))
    matrices = jnp.stack(shifted, axis=-2).transpose(0, 2, 1, 3, 4, 5)
    return matrices.reshape(depth * kw, span * channels, group * filters)
'''
DIVISOR = '''def divisor(size, limit):
    """Largest divisor of `size` up to `limit`."""
    return max(d for d in range(1, min(size, limit) + 1) if size % d == 0)
'''
STORY = """Channels lie in lanes, images in sublanes: every tap is a product of whole registers,
and shifting the window is only another address."""


class Frame(NamedTuple):
    """What the module of every convolution starts from."""

    module: Module
    names: Names
    arguments: list[str]
    arrays: list[str]
    params: list[str]
    """Arrays that the epilogue reads."""
    refs: list[str]
    """Their Refs."""


def frame(
    info: TaskInfo,
    conv: ConvProgram,
    taken: Iterable[str],
    title: str,
    story: str,
    tunables: TunableSpace,
) -> Frame:
    """An empty module, and the names of what goes into it; `taken` are those of its bodies."""
    names = Names(taken)
    arguments = parameters(info, names)
    arrays = array_names(info, arguments)
    params = [arrays[conv.program.input(t).index] for t in conv.params]
    refs = [names.new(f"{name}_ref") for name in params]
    return Frame(Module(title, story, tunables), names, arguments, arrays, params, refs)


def module_text(info: TaskInfo, conv: ConvProgram, tunables: TunableSpace, vmem_limit: int) -> str:
    """Source of a convolution kernel."""
    title = "Convolution with fused epilogue."
    module, names, arguments, arrays, params, refs = frame(
        info, conv, TAKEN, title, STORY, tunables
    )
    text, scratch = body.body(conv, refs, module, names)
    module.helpers |= {_BANDED, DIVISOR}
    module.constants["LANES"] = ("128", "")
    module.constants["ROWS"] = (
        str(ROWS),
        "and images of a block: what a 16-bit register has",
    )
    module.constants["VMEM_LIMIT_BYTES"] = (f"{vmem_limit >> 20} * 2**20", "")
    kernel = _kernel(conv, arguments, arrays, params, module, scratch)
    module.functions = [text, kernel]
    return module.render()


def _kernel(
    conv: ConvProgram,
    arguments: list[str],
    arrays: list[str],
    params: list[str],
    module: Module,
    scratch: list[str],
) -> str:
    flat = len(conv.conv.lhs) == 4
    x, w = arrays[conv.x.index], arrays[conv.w.index]
    defaults = [f"{name}={plain(choices[0])}" for name, choices in module.tunables.items()]
    lines = [
        call("kernel", [*arguments, "*", *defaults], 0, "def ", ":"),
        doc("Reads the sizes from the inputs' shapes and fits the blocks to them.", 4),
        *(f"    {line}".rstrip() for line in _operands(conv, x, w, flat)),
        *(f"    {line}".rstrip() for line in _sizes(conv, flat)),
        *_indices(conv, flat),
        *_params(conv, params),
        _call(conv, params, scratch, x),
        f"    return {_result(conv, flat)}",
    ]
    return "\n".join(lines)


def _operands(conv: ConvProgram, x: str, w: str, flat: bool) -> list[str]:
    """Images (N, C, depth, height, width) and weights (depth, height, width, C, O)."""
    rhs = conv.conv.rhs
    order = (*rhs[2:], rhs[1], rhs[0])
    depth = "[None]" if flat else ""
    comment = ["# An image is a volume of depth 1."] if flat else []
    return [
        *comment,
        f"images = {x}{'[:, :, None]' if flat else ''}",
        f"weights = {w}.transpose({', '.join(map(str, order))}){depth}.astype(jnp.bfloat16)",
        "kd, kh, kw, channels, filters = weights.shape",
    ]


def _sizes(conv: ConvProgram, flat: bool) -> list[str]:
    padding = [*([(0, 0)] if flat else []), *conv.conv.padding]
    deep, tall, wide = padding
    height = "images.shape[3]" + (f" + {sum(tall)}" if sum(tall) else "")
    block = "block_rows" if flat else "ROWS"
    below = f"{tall[1]} + below" if tall[1] else "below"
    pads = ["(0, 0)", "(0, padded - channels)", str(deep), f"({tall[0]}, {below})", str(wide)]
    return [
        "",
        "# Channels fill the lanes exactly: of `group` rows together where they are few.",
        "padded = pl.cdiv(channels, LANES) * LANES",
        "if channels < LANES:",
        "    padded = max(ROWS, 1 << (channels - 1).bit_length())",
        f"height = {height}",
        f"below = -height % {block}",
        f"pads = ({', '.join(pads)})",
        "images = jnp.pad(images, pads)",
        "weights = jnp.pad(weights, ((0, 0), (0, 0), (0, 0), (0, padded - channels), (0, 0)))",
        "count, _, depth, tall, width = images.shape",
        "depth_out, rows_out, cols_out = depth - kd + 1, height - kh + 1, width - kw + 1",
        "group = max(1, LANES // padded)",
        "lanes_in = pl.cdiv(width, LANES) * LANES",
        "near = pl.cdiv(group + kh - 1, group)",
        "matrices = banded(weights, group, near)",
        "lanes = group * filters",
    ]


def _indices(conv: ConvProgram, flat: bool) -> list[str]:
    axes = _axes(conv)
    image = "image"
    shown = "jnp.maximum(i - lag, 0)"
    if conv.sweeps > 1:
        shown = f"jnp.where(sweep == SWEEPS - 1, {shown}, 0)"
        if conv.across:
            image = "jnp.where(sweep == SWEEPS - 1, image, 0)"
    if flat:
        lines = [
            "",
            "# A block of output rows needs the first rows of the next block of input: it lags.",
            "blocks, lag, plane = tall // block_rows, 1, 0",
            "steps = pl.cdiv(rows_out, block_rows) + lag",
            "slots = 2 * (block_rows // group)",
        ]
        source, target = "image, 0, 0, jnp.minimum(i, blocks - 1), 0", f"0, {shown}, 0, {image}, 0"
    else:
        lines = [
            "",
            "# Slices pass by whole; a slice of the output lags until its last tap is there.",
            "block_rows, lag, plane = tall, kd - 1, tall // group",
            "steps, slots = depth, (kd + 1) * plane",
        ]
        source, target = "image, 0, i, 0, 0", f"{shown}, 0, 0, {image}, 0"
    lines += [
        "",
        f"def source({axes}):",
        f"    return {source}",
        "",
        f"def target({axes}):",
        *_target(target),
        "",
    ]
    return [f"    {line}".rstrip() for line in lines]


def _target(text: str) -> list[str]:
    if "jnp.where" not in text:
        return [f"    return {text}"]
    parts = ["block", "image"] if "jnp.where(sweep == SWEEPS - 1, image, 0)" in text else ["block"]
    short = text.replace("jnp.where(sweep == SWEEPS - 1, image, 0)", "image")
    short = short.replace("jnp.where(sweep == SWEEPS - 1, jnp.maximum(i - lag, 0), 0)", "block")
    return [
        '    """Nothing is written before the last sweep."""',
        "    last = sweep == SWEEPS - 1",
        "    block = jnp.where(last, jnp.maximum(i - lag, 0), 0)",
        *(["    image = jnp.where(last, image, 0)"] if len(parts) > 1 else []),
        f"    return {short}",
    ]


def _axes(conv: ConvProgram) -> str:
    if conv.sweeps == 1:
        return "image, i"
    return "sweep, image, i" if conv.across else "image, sweep, i"


def _params(conv: ConvProgram, params: list[str]) -> list[str]:
    if not params:
        return []
    return [
        "    def in_lanes(values):",
        '        """One value per channel, for every row of a group."""',
        "        values = jnp.broadcast_to(values.astype(jnp.float32).reshape(-1), filters)",
        "        return jnp.tile(values.reshape(1, filters), (1, group))",
        "",
    ]


def _call(conv: ConvProgram, params: list[str], scratch: list[str], x: str) -> str:
    axes = _axes(conv)
    grid = {
        "image": "pl.cdiv(count, ROWS)",
        "sweep": "SWEEPS",
        "i": "steps",
    }
    everywhere = f"lambda {axes}: "
    specs = [
        "pl.BlockSpec((ROWS, padded, 1, block_rows, lanes_in), source)",
        f"pl.BlockSpec(matrices.shape, {everywhere}(0, 0, 0))",
        *[f"pl.BlockSpec((1, lanes), {everywhere}(0, 0))" for _ in params],
    ]
    rows = "slots, lanes_in, ROWS, group * padded"
    out_dtype = conv.program.outputs[0].dtype
    same = f"{x}.dtype" if out_dtype == conv.x.dtype else f"jnp.{out_dtype}"
    bound = ["kd=kd", "kw=kw", "near=near", "group=group", "lag=lag", "plane=plane"]
    bound += ["chunk=divisor(cols_out, chunk_cols)"]
    if conv.sweeps > 1:
        bound += ["rows=rows_out", f"count={_count(conv)}"]
        bound += ["images=count"] if conv.across else []
        bound += ["steps=steps", *(["blocks=pl.cdiv(count, ROWS)"] if conv.across else [])]
    pieces = [
        call("functools.partial", ["body", *bound], 8),
        sequence([grid[a] for a in axes.split(", ")], 8, "grid=", "()"),
        sequence(specs, 8, "in_specs="),
        "out_specs=pl.BlockSpec((1, block_rows, cols_out, ROWS, filters), target)",
        call(
            "jax.ShapeDtypeStruct",
            ["(depth_out, rows_out, cols_out, count, filters)", same],
            8,
            "out_shape=",
        ),
        sequence(
            [call("pltpu.VMEM", [f"({rows})", "jnp.bfloat16"], 12), *scratch],
            8,
            "scratch_shapes=",
        ),
        compiler_params(["arbitrary"] * len(axes.split(", "))),
    ]
    run = call("pl.pallas_call", pieces, 4, "out = ")
    taken = ["images", "matrices", *(f"in_lanes({p})" for p in params)]
    return run.removesuffix("    )") + call(")", taken, 4)


def _count(conv: ConvProgram) -> str:
    """How many values a statistic runs over, runs of channels apart."""
    return "depth_out * rows_out * cols_out" + (" * count" if conv.across else "")


def _result(conv: ConvProgram, flat: bool) -> str:
    """From (depth, rows, cols, images, channels) to the task's order."""
    return arranged(f"out{'[0]' if flat else ''}", (2, 3, 0, 1) if flat else (3, 4, 0, 1, 2), conv)


def arranged(out: str, lies: Sequence[int], conv: ConvProgram) -> str:
    """An array in the task's order; `lies`: its dimensions of (images, channels, spatial...)."""
    order = [lies[place] for place in conv.kept]
    if order != sorted(order):
        out = f"{out}.transpose({', '.join(map(str, order))})"
    index = ["None" if place is None else ":" for place in conv.order]
    while index and index[-1] == ":":
        index.pop()
    return f"{out}[{', '.join(index)}]" if index else out
