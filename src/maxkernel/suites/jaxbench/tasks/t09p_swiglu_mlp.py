"""9p: SwiGLU feed-forward layer of Llama-3.1-70B.

y = (silu(x Wg) * (x Wu)) Wd, every intermediate in bfloat16. Full size: x (2, 4096, 8192),
feed-forward width 28672.
"""

import jax
import jax.numpy as jnp

EDITION = "hardened"
TOLERANCE = {"atol": 1e-1, "rtol": 1e-2}


def reference(x, w_gate, w_up, w_down):
    """x: (B, S, E); w_gate, w_up: (E, M); w_down: (M, E). Returns (B, S, E)."""
    return (jax.nn.silu(x @ w_gate) * (x @ w_up)) @ w_down


def inputs(key):
    return draw(key, batch=2, length=4096, width=8192, hidden=28672)


def check_inputs(key):
    return draw(key, batch=2, length=256, width=512, hidden=1792)


def draw(key, batch, length, width, hidden):
    x, gate, up, down = jax.random.split(key, 4)
    std = 0.02 * (8192 / width) ** 0.5
    return (
        normal(x, (batch, length, width)),
        normal(gate, (width, hidden), std),
        normal(up, (width, hidden), std),
        normal(down, (hidden, width), std),
    )


def normal(key, shape, std=1.0):
    """Normal draws; the hardened edition rounds float32 draws, bfloat16 ones take few values."""
    if EDITION == "hardened":
        return (std * jax.random.normal(key, shape)).astype(jnp.bfloat16)
    return jax.random.normal(key, shape, jnp.bfloat16) * std
