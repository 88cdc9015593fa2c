"""The body of a convolution kernel whose pixels lie in lanes: taps, products, sweeps, a result."""

from __future__ import annotations

from maxkernel.engineers.builtin.conv.match import ConvProgram
from maxkernel.engineers.builtin.conv.planes_sums import PlaneSums, looped, per_group
from maxkernel.engineers.builtin.module import Module
from maxkernel.engineers.builtin.text import Names, call, doc

TAKEN = (
    "images step_groups pictures weights matrices filters channels padded kh kw height below "
    "span rows cols count width groups unroll steps deep tall tap_rows out in_lanes banded "
    "divisor x_ref w_ref out_ref taps_ref found_ref turn product inside gather settle guess "
    "finish clear matrix size image first values shifted taps at t j c carry lane total "
    "over_pixels over_run squares shift row value add nothing side lanes".split()
)
"""Names that the module uses itself."""
_TAPS = '''
    count, channels, height, width = x_ref.shape
    filters, deep = w_ref.shape[0] // GROUP, kw * channels

    @pl.when(pl.program_id(0) == 0)
    def clear():
        # Rows below an image meet zero weights: they must be finite.
        taps_ref[...] = jnp.zeros_like(taps_ref)

    def turn(t, carry):
        """ROWS rows of an image to (pairs of rows, shifts, channels, 2, columns)."""
        blocks = height // ROWS
        image, first = t // blocks, t % blocks * ROWS
        window = pl.ds(pl.multiple_of(first, ROWS), ROWS)
        values = x_ref[image, :, window, :].astype(jnp.bfloat16)
        # Two rows are a 32-bit word: they stay together, and half as much moves.
        values = pltpu.bitcast(values.reshape(channels * ROWS, width), jnp.int32)
        values = jnp.swapaxes(values.reshape(channels, ROWS // 2, width), 0, 1)
        shifted = [values, *(pltpu.roll(values, width - s, 2) for s in range(1, kw))]
        taps = jnp.concatenate(shifted, axis=1).reshape(ROWS // 2 * deep, width)
        at = pl.ds(pl.multiple_of(first * deep, ROWS * deep), ROWS * deep)
        taps_ref[image, at] = pltpu.bitcast(taps, jnp.bfloat16)
        return carry

    jax.lax.fori_loop(0, count * (height // ROWS), turn, 0, unroll=2)

    def product(t, j, size=GROUP):
        """A group of rows, or its first `size`: (size, filters, cols)."""
        first = (t % steps * unroll + j) * GROUP
        at = pl.multiple_of(first * deep, GROUP * deep)
        taps = taps_ref[t // steps, pl.ds(at, w_ref.shape[1])]
        matrix = w_ref[: size * filters]
        out = jnp.dot(matrix, taps, preferred_element_type=jnp.float32)
        return out.reshape(size, filters, width)
'''
_INSIDE = '''
    def inside(values, t, j, nothing):
        """Without rows below the image; only the last group of a step reaches there."""
        if j < unroll - 1:
            return values
        row = jax.lax.broadcasted_iota(jnp.int32, values.shape, 0)
        first = (t % steps * unroll + j) * GROUP
        return jnp.where(first + row < rows, values, nothing)
'''


def body(
    conv: ConvProgram, refs: list[str], module: Module, names: Names
) -> tuple[str, dict[str, str]]:
    """(source of `body`, shapes of its float32 scratch memory beside the taps)."""
    sums = PlaneSums.of(conv, refs, module, names)
    found = [] if conv.pooled else ["found_ref"]
    keywords = ["*", "kw", "steps", "unroll", "rows", "cols"]
    parameters = ["x_ref", "w_ref", *refs, "out_ref", "taps_ref", *sums.refs, *found, *keywords]
    about = "Lays out the taps of a block of images; then the products and what follows."
    lines = [
        call("body", parameters, 0, "def ", ":"),
        doc(about, 4),
        *_TAPS.strip("\n").split("\n"),
        *(_INSIDE.rstrip("\n").split("\n") if conv.statistics else []),
    ]
    for level in range(1, conv.levels + 1):
        lines += [f"    {line}".rstrip() for line in sums.sweep(level)]
    result = _pooled(conv, sums) if conv.pooled else _per_pixel(conv, sums)
    lines += [f"    {line}".rstrip() for line in result]
    scratch = dict.fromkeys(sums.refs, "(images, filters, width)")
    scratch |= dict.fromkeys(found, "(images, groups * GROUP, width)")
    return "\n".join(lines), scratch


def _pooled(conv: ConvProgram, sums: PlaneSums) -> list[str]:
    """What is left of an image, from its statistics: its channels (or one value) in lanes."""
    scope = sums.scope(conv.levels + 1)
    (value,) = scope.write([conv.program.outputs[0].term])
    shape, text = "(1, width)", "jnp.broadcast_to(value[:, :1], (1, LANES))"
    if 1 in conv.kept:
        shape, text = "(filters, width)", "value.T[:1]"
    lines = [
        *scope.lines,
        f"value = {value.text}",
        f"value = jnp.broadcast_to(value, {shape})",
        f"out_ref[image] = {text}.astype(out_ref.dtype)",
    ]
    return looped("finish", "image", lines, "count")


def _per_pixel(conv: ConvProgram, sums: PlaneSums) -> list[str]:
    """One value per pixel, rows in sublanes; the block is written when it is complete."""
    before, after, (value,) = sums.write(conv.levels + 1, [conv.program.outputs[0].term])
    lines = [
        *after,
        f"value = {value.text}",
        "first = pl.multiple_of((t % steps * unroll + j) * GROUP, GROUP)",
        "found_ref[image, pl.ds(first, GROUP)] = value[:, 0]",
    ]
    return [
        *looped("finish", "t", per_group(before, lines), "count * steps"),
        "out_ref[...] = found_ref[:, :rows, :cols].astype(out_ref.dtype)",
    ]
