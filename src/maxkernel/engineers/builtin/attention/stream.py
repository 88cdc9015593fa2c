"""How an attention kernel meets keys that do not stay in VMEM: one block of them per step."""

from __future__ import annotations

from maxkernel.engineers.builtin.attention.match import Attention
from maxkernel.engineers.builtin.attention.walk import start
from maxkernel.engineers.builtin.text import doc


def stream(a: Attention, sink: str) -> list[str]:
    """The running softmax in scratch, from the first block of keys to the last one; blocks that
    are not visible are left out, masks are evaluated where a block is visible in part."""
    begin = [line.replace("wide_ref", "acc_ref") for line in start(a, "stream", sink)]
    return [
        "    @pl.when(j == 0)",
        "    def begin():",
        doc("Nothing seen; columns of ones, so that the second product adds up the weights.", 8),
        "        ones = (key_block, wide_ref.shape[1] - width)",
        "        wide_ref[:, width:] = jnp.ones(ones, wide_ref.dtype)",
        *(f"    {line}" for line in begin),
        "        top_ref[...], acc_ref[...] = top, acc",
        "",
        "    def step(masked=False):",
        "        wide_ref[:, :width] = v_ref[0]",
        "        s, values = score(slice(0, block), start, key_block, masked)",
        "        top_ref[...], acc_ref[...] = update(top_ref[...], acc_ref[...], s, values)",
        "",
        *(_bounded(a) if a.mask.causal else WHOLE),
        "",
        "    @pl.when(j == pl.num_programs(2) - 1)",
        "    def finish():",
        "        out = acc_ref[:, :width] / acc_ref[:, width : width + 1]",
        "        out_ref[0] = out.astype(out_ref.dtype)",
    ]


WHOLE = (
    "    whole, ragged = divmod(key_count, key_block)",
    "    pl.when(j < whole)(step)",
    "    if ragged:",
    "        pl.when(j == whole)(functools.partial(step, masked=True))",
)


def _bounded(a: Attention) -> list[str]:
    lines = [
        "    last, final = first + block - 1, start + key_block - 1",
        "    visible, clear = start <= last, final <= first",
    ]
    if a.mask.window is not None:
        lines += [
            "    visible &= first - final < window",
            "    clear &= last - start < window",
        ]
    return [
        *lines,
        "    pl.when(clear)(step)",
        "    pl.when(visible & ~clear)(functools.partial(step, masked=True))",
    ]


def fetched(a: Attention, window: str) -> tuple[str, list[str]]:
    """The block of keys that step j of a grid fetches, and the function that says so: one that is
    not visible is not fetched, the one before it stays. `window` is the name of its width."""
    if not a.mask.causal:
        return "j", []
    last = "((i + 1) * block - 1) // key_block"
    lines = [f"        return jnp.minimum(j, {last})"]
    if a.mask.window is not None:
        lines = [
            f"        oldest = jnp.maximum(i * block - {window} + 1, 0) // key_block",
            f"        return jnp.clip(j, oldest, {last})",
        ]
    return "seen(i, j)", [
        "",
        "    def seen(i, j):",
        doc("The block of keys of step j; what is not visible is not fetched.", 8),
        *lines,
        "",
    ]
