"""The body of a convolution kernel: turning rows, products over taps, sweeps, the epilogue."""

from __future__ import annotations

from maxkernel.engineers.builtin.conv.match import ConvProgram
from maxkernel.engineers.builtin.conv.sums import Sums
from maxkernel.engineers.builtin.module import Module
from maxkernel.engineers.builtin.text import Names, call, doc

TAKEN = (
    "images weights matrices kd kh kw channels filters padded height tall count depth width "
    "depth_out rows_out cols_out group near lanes blocks lag plane steps slots source target out "
    "image sweep i in_lanes block_rows chunk_cols banded divisor x_ref w_ref out_ref rows_ref turn "
    "product chunk first groups per row rows c t j at taps tap matrix part parts cols turned carry "
    "inside clear gather finish settle merge over_run values value last guess guess_means wide "
    "step lane shift lanes_in block below squares total".split()
)
"""Names that the module uses itself."""
_TURN = '''
    @pl.when({first})
    def clear():
        # A row that has not arrived yet meets zero weights: it must be finite.
        rows_ref[...] = jnp.zeros_like(rows_ref)

    def turn(t, carry):
        """ROWS rows: (channels, rows, cols) of an image to (cols, images, channels)."""
        rows = pl.ds(pl.multiple_of(t * ROWS, ROWS), ROWS)
        turned = []
        for image in range(ROWS):
            values = x_ref[image, :, 0, rows, :].astype(jnp.bfloat16)
            values = jnp.swapaxes(values, 0, 1).reshape(per, lanes, x_ref.shape[4])
            turned.append([values[row].T for row in range(per)])
        first = (i * groups + t * per) % slots
        for row in range(per):
            values = jnp.stack([image[row] for image in turned])
            rows_ref[first + row] = jnp.swapaxes(values, 0, 1)
        return carry

    jax.lax.fori_loop(0, x_ref.shape[3] // ROWS, turn, 0)

    def product(row, first):
        """`chunk` columns of a group of rows: (cols, images, group * channels)."""
        at = (i - lag) * groups + row
        parts = []
        for depth in range(kd):
            for col in range(kw):
                cols = pl.ds(first + col, chunk)
                taps = []
                for j in range(near):
                    tap = rows_ref[(at + depth * plane + j) % slots, cols]
                    taps.append(tap.reshape(chunk * ROWS, lanes))
                taps, matrix = jnp.concatenate(taps, axis=1), w_ref[depth * kw + col]
                part = jnp.dot(taps, matrix, preferred_element_type=jnp.float32)
                parts.append(part)
        return functools.reduce(jnp.add, parts).reshape(chunk, ROWS, -1)
'''


def body(conv: ConvProgram, refs: list[str], module: Module, names: Names) -> tuple[str, list[str]]:
    """(source of `body`, its scratch memory beside the turned rows)."""
    sums = Sums.of(conv, refs, module, names)
    keywords = ["kd", "kw", "near", "group", "lag", "plane", "chunk"]
    walks = {"block": 0, "i": 1}
    if conv.sweeps > 1:
        keywords += ["rows", "count", *(["images"] if conv.across else [])]
        module.constants["SWEEPS"] = (str(conv.sweeps), "over the pixels: statistics, then results")
        keywords += ["steps", *(["blocks"] if conv.across else [])]
        walks = {"sweep": 0, "block": 1} if conv.across else {"block": 0, "sweep": 1}
        walks["i"] = 2
    parameters = ["x_ref", "w_ref", *refs, "out_ref", "rows_ref", *sums.refs, "*", *keywords]
    about = "Turns a block of rows; the products follow once all taps are there."
    begin = " & ".join(f"({name} == 0)" for name in walks)
    lines = [
        call("body", parameters, 0, "def ", ":"),
        doc(about, 4),
        *(f"    {name} = pl.program_id({axis})" for name, axis in walks.items()),
        "    slots, lanes = rows_ref.shape[0], rows_ref.shape[3]",
        "    groups, per, filters = x_ref.shape[3] // group, ROWS // group, out_ref.shape[4]",
        *_TURN.format(first=begin).rstrip("\n").split("\n"),
        *(f"    {line}".rstrip() for line in _sweeps(conv, sums)),
    ]
    scratch = ["pltpu.VMEM((ROWS, lanes), jnp.float32)" for _ in sums.refs]
    return "\n".join(lines), scratch


def _sweeps(conv: ConvProgram, sums: Sums) -> list[str]:
    """A loop over groups of rows and chunks of columns for every sweep, and what surrounds it."""
    lines = [*sums.clear(), "", "wide = out_ref.shape[2] // chunk"]
    for level in range(1, conv.sweeps):
        when = f"(sweep == {level - 1}) & (i >= lag)"
        lines += _loop(when, "gather", sums.gather(level), sums.guesses(level))
        lines += sums.settle(level)
    when = "(sweep == SWEEPS - 1) & (i >= lag)" if conv.sweeps > 1 else "i >= lag"
    return [*lines, *_loop(when, "finish", _finish(conv, sums), [])]


def _loop(when: str, name: str, inner: list[str], before: list[str]) -> list[str]:
    """One sweep over a block."""
    return [
        "",
        f"@pl.when({when})",
        f"def {name}():",
        *(f"    {line}" for line in before),
        "    def step(t, carry):",
        "        row, first = t // wide, t % wide * chunk",
        "        c = product(row, first)",
        *(f"        {line}" for line in inner),
        "        return carry",
        "",
        "    jax.lax.fori_loop(0, groups * wide, step, 0)",
    ]


def _finish(conv: ConvProgram, sums: Sums) -> list[str]:
    """The epilogue, and the store of every row of the group."""
    scope = sums.scope(conv.sweeps)
    (value,) = scope.write([conv.program.outputs[0].term])
    return [
        *scope.lines,
        f"value = {value.text}",
        "for j in range(group):",
        "    values = value[..., j * filters : (j + 1) * filters]",
        "    cols = pl.ds(first, chunk)",
        "    out_ref[0, row * group + j, cols] = values.astype(out_ref.dtype)",
    ]
