"""The module of a convolution kernel whose pixels lie in lanes."""

from __future__ import annotations

from maxkernel.engineers.builtin.conv import planes_body
from maxkernel.engineers.builtin.conv.emit import DIVISOR, arranged, frame
from maxkernel.engineers.builtin.conv.match import ConvProgram
from maxkernel.engineers.builtin.module import Module, plain
from maxkernel.engineers.builtin.text import call, compiler_params, doc, sequence
from maxkernel.types import TaskInfo, TunableSpace

ROWS = 16
"""Rows that are laid out at a time: a tile of 16-bit values."""
GROUP = 8
"""Rows of the result that one product yields; even, since rows lie in pairs."""
_BANDED = '''def banded(w, span):
    """Weights (O, C, rows, cols) as (GROUP * O, span * cols * C), for pairs of rows.

    The products of one matrix are GROUP output rows: the filter of each is shifted down
    by one more input row.
    """
    filters, channels, kh, kw = w.shape
    shifted = []
    for row in range(GROUP):
        pads = ((0, 0), (0, 0), (row, span - kh - row), (0, 0))
        shifted.append(jnp.pad(w, pads))
    split = (GROUP, filters, channels, span // 2, 2, kw)
    matrix = jnp.stack(shifted).reshape(split).transpose(0, 1, 3, 5, 2, 4)
    return matrix.reshape(GROUP * filters, span * kw * channels)
'''
STORY = """Columns lie in lanes as they do in memory, channels and rows in sublanes: the weights
stream through the matrix unit, and a sum over pixels or channels adds whole registers."""


def module_text(info: TaskInfo, conv: ConvProgram, tunables: TunableSpace, vmem_limit: int) -> str:
    """Source of a convolution kernel with one value per pixel or none as its result."""
    title = "Convolution with fused reductions."
    module, names, arguments, arrays, params, refs = frame(
        info, conv, planes_body.TAKEN, title, STORY, tunables
    )
    text, scratch = planes_body.body(conv, refs, module, names)
    module.helpers |= {_BANDED, DIVISOR}
    module.constants["LANES"] = ("128", "")
    module.constants["ROWS"] = (str(ROWS), "are laid out at a time: a tile of 16-bit values")
    module.constants["GROUP"] = (str(GROUP), "rows of the result in one product")
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
    scratch: dict[str, str],
) -> str:
    x, w = arrays[conv.x.index], arrays[conv.w.index]
    defaults = [f"{name}={plain(choices[0])}" for name, choices in module.tunables.items()]
    lines = [
        call("kernel", [*arguments, "*", *defaults], 0, "def ", ":"),
        doc("Reads the sizes from the inputs' shapes and fits the blocks to them.", 4),
        *(f"    {line}".rstrip() for line in _sizes(conv, x, w)),
        *_params(params),
        _call(conv, params, scratch, x),
        f"    return {_result(conv)}",
    ]
    return "\n".join(lines)


def _sizes(conv: ConvProgram, x: str, w: str) -> list[str]:
    rhs = conv.conv.rhs
    order = ", ".join(map(str, rhs))
    turned = "" if rhs == (0, 1, 2, 3) else f".transpose({order})"
    tall, wide = conv.conv.padding
    height = f"{x}.shape[2]" + (f" + {sum(tall)}" if sum(tall) else "")
    below = f"{tall[1]} + below" if tall[1] else "below"
    pads = ["(0, 0)", "(0, padded - channels)", f"({tall[0]}, {below})", str(wide)]
    return [
        f"weights = {w}{turned}.astype(jnp.bfloat16)",
        "filters, channels, kh, kw = weights.shape",
        "padded = pl.cdiv(channels, 8) * 8",
        f"height = {height}",
        "below = -height % ROWS",
        call("jnp.pad", [x, f"({', '.join(pads)})"], 4, "pictures = ").lstrip(),
        "weights = jnp.pad(weights, ((0, 0), (0, padded - channels), (0, 0), (0, 0)))",
        "count, _, tall, width = pictures.shape",
        "rows, cols = height - kh + 1, width - kw + 1",
        "width = pl.cdiv(width, LANES) * LANES",
        "images = min(images, count)",
        "groups = pl.cdiv(rows, GROUP)",
        "unroll = divisor(groups, step_groups)",
        "span = GROUP + kh - 1 + (kh - 1) % 2",
        "matrices = banded(weights, span)",
        "tap_rows = max(tall, groups * GROUP - GROUP + span) * kw * padded",
        "",
    ]


def _params(params: list[str]) -> list[str]:
    if not params:
        return []
    return [
        "    def in_lanes(values):",
        '        """One value per channel, in every lane."""',
        "        values = values.astype(jnp.float32).reshape(-1, 1)",
        "        return jnp.broadcast_to(values, (filters, width))",
        "",
    ]


def _call(conv: ConvProgram, params: list[str], scratch: dict[str, str], x: str) -> str:
    specs = [
        "pl.BlockSpec((images, padded, tall, width), lambda i: (i, 0, 0, 0))",
        "pl.BlockSpec(matrices.shape, lambda i: (0, 0))",
        *["pl.BlockSpec((filters, width), lambda i: (0, 0))" for _ in params],
    ]
    out = "rows, cols"
    if conv.pooled:
        out = "1, filters" if 1 in conv.kept else "1, LANES"
    out_dtype = conv.program.outputs[0].dtype
    same = f"{x}.dtype" if out_dtype == conv.x.dtype else f"jnp.{out_dtype}"
    bound = ["kw=kw", "steps=groups // unroll", "unroll=unroll", "rows=rows", "cols=cols"]
    memory = [
        "pltpu.VMEM((images, tap_rows, width), jnp.bfloat16)",
        *(f"pltpu.VMEM({shape}, jnp.float32)" for shape in scratch.values()),
    ]
    pieces = [
        call("functools.partial", ["body", *bound], 8),
        "grid=(pl.cdiv(count, images),)",
        sequence(specs, 8, "in_specs="),
        f"out_specs=pl.BlockSpec((images, {out}), lambda i: (i, 0, 0))",
        f"out_shape=jax.ShapeDtypeStruct((count, {out}), {same})",
        sequence(memory, 8, "scratch_shapes="),
        compiler_params(["arbitrary"]),
    ]
    run = call("pl.pallas_call", pieces, 4, "out = ")
    taken = ["pictures", "matrices", *(f"in_lanes({p})" for p in params)]
    return run.removesuffix("    )") + call(")", taken, 4)


def _result(conv: ConvProgram) -> str:
    if not conv.pooled:
        return arranged("out", (0, 0, 1, 2), conv)
    return arranged("out[:, 0]" if 1 in conv.kept else "out[:, 0, 0]", (0, 1), conv)
