"""How an attention kernel walks the keys: from nothing, over blocks or over a whole window."""

from __future__ import annotations

from typing import Literal

from maxkernel.engineers.builtin.attention.match import Attention
from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.text import number

LOG2_E = 1.4426950408889634


Walk = Literal["sweep", "band", "stream", "few"]
"""`sweep`: a running softmax over blocks of the resident keys; `band`: all keys of a window at
once; `stream`: blocks of keys come from HBM, one per step of the grid; `few`: the same for some
heads side by side (`few.py`)."""


def start(a: Attention, walk: Walk, sink: str) -> list[str]:
    """The running softmax before any key; a `sink`, the name of its array, is a key without a
    value."""
    tall = "strip" if walk == "band" else "block"
    if a.sink is None:
        return [
            f"    top = jnp.full(({tall}, 1), LOWEST, jnp.float32)",
            f"    acc = jnp.zeros(({tall}, wide_ref.shape[1]), jnp.float32)",
        ]
    ref = f"{sink}_ref"
    top = f"jnp.full(({tall}, 1), {ref}[h % {ref}.shape[0]] * {number(LOG2_E)})"
    if a.sink.rows:
        if walk == "band":
            raise Unsupported("sinks per query, and strips with their whole windows")
        top = f"{ref}[0].astype(jnp.float32) * {number(LOG2_E)}"
    return [
        f"    top = {top}",
        f"    lane = jax.lax.broadcasted_iota(jnp.int32, ({tall}, wide_ref.shape[1]), 1)",
        "    acc = jnp.where(lane < width, 0.0, 1.0)",
    ]


_STORE = (
    "        out = o[:, :width] / o[:, width : width + 1]",
    "        out_ref[0, rows] = out.astype(out_ref.dtype)",
)


def sweep(a: Attention) -> list[str]:
    """Blocks of keys from the first visible one to the diagonal, and the diagonal in strips."""
    wide = "block" if a.mask.causal else "key_block"
    step = [
        "",
        "    def step(j, carry, masked=False):",
        f"        return update(*carry, *score(slice(0, block), j * {wide}, {wide}, masked))",
        "",
    ]
    if not a.mask.causal:
        return [
            *step,
            "    whole, ragged = divmod(key_count, key_block)",
            "    top, acc = jax.lax.fori_loop(0, whole, step, (top, acc))",
            "    if ragged:",
            "        top, acc = step(whole, (top, acc), masked=True)",
            "    out = acc[:, :width] / acc[:, width : width + 1]",
            "    out_ref[0] = out.astype(out_ref.dtype)",
        ]
    begin = "0"
    edge: list[str] = []
    if a.mask.window is not None:
        begin = "near"
        edge = [
            "    far = jnp.maximum(i - pl.cdiv(window - 1, block), 0)",
            "    near = jnp.maximum(i - max(window - block, 0) // block, 0)",
            "    edge = functools.partial(step, masked=True)",
            "    top, acc = jax.lax.fori_loop(far, near, edge, (top, acc))",
        ]
    return [
        *step,
        *edge,
        f"    top, acc = jax.lax.fori_loop({begin}, i, step, (top, acc))",
        "",
        "    for r in range(0, block, strip):",
        "        rows = slice(r, r + strip)",
        "        s, values = score(rows, first, r + strip, masked=True)",
        "        _, o = update(top[rows], acc[rows], s, values)",
        *_STORE,
    ]


def band() -> list[str]:
    """Strips of queries, each with its whole window of keys."""
    return [
        "    back = pl.cdiv(window - 1, strip) * strip",
        "    size = min(back + strip, wide_ref.shape[0])",
        "    for r in range(0, block, strip):",
        "        rows = slice(r, r + strip)",
        "        start = jnp.maximum(first + r + strip - size, 0)",
        "        _, o = update(top, acc, *score(rows, start, size, masked=True))",
        *_STORE,
    ]
