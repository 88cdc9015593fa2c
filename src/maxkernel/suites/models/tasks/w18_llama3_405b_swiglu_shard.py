"""w18: SwiGLU feed-forward layer of Llama-3.1-405B, one of 8 tensor-parallel shards.

y = (silu(x gate) * (x up)) down, a partial sum in bfloat16. Full size: 4096 tokens of 16384, shard
width 6656 (13 x 512).
"""

import jax
import jax.numpy as jnp

TOLERANCE = {"atol": 1e-2, "rtol": 1e-2}


def reference(x, gate, up, down):
    """x: (T, E); gate, up: (E, M); down: (M, E). Returns (T, E)."""
    return (jax.nn.silu(x @ gate) * (x @ up)) @ down


def inputs(key):
    return draw(key, tokens=4096, width=16384, hidden=6656)


def check_inputs(key):
    return draw(key, tokens=256, width=512, hidden=1664)


def draw(key, tokens, width, hidden):
    x, gate, up, down = jax.random.split(key, 4)
    return (
        normal(x, (tokens, width)),
        normal(gate, (width, hidden), width**-0.5),
        normal(up, (width, hidden), width**-0.5),
        normal(down, (hidden, width), 1.5 * hidden**-0.5),
    )


def normal(key, shape, std=1.0):
    return (std * jax.random.normal(key, shape)).astype(jnp.bfloat16)
