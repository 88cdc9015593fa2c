"""w19: RMSNorm with residual add, Llama-3.1-405B.

s = x + r in bfloat16, returned; y = bf16(s / sqrt(mean(s^2) + 1e-5)) w, the statistics in float32.
Full size: 8192 tokens of 16384. Every row of x has its own scale, exp(N(0, 1)).
"""

import jax
import jax.numpy as jnp
from jax import lax

TOLERANCE = {"atol": 2e-2, "rtol": 1e-2}

EPS = 1e-5


def reference(x, r, weight):
    """x, r: (T, D); weight: (D,). Returns s and y, both (T, D)."""
    s = x + r
    s32 = s.astype(jnp.float32)
    scale = lax.rsqrt(jnp.mean(s32 * s32, axis=-1, keepdims=True) + EPS)
    return s, (s32 * scale).astype(x.dtype) * weight


def inputs(key):
    return draw(key, tokens=8192, width=16384)


def check_inputs(key):
    return draw(key, tokens=512, width=2048)


def draw(key, tokens, width):
    k_x, k_row, k_r, k_w = jax.random.split(key, 4)
    row = jnp.exp(jax.random.normal(k_row, (tokens, 1)))
    return (
        normal(k_x, (tokens, width), row),
        normal(k_r, (tokens, width)),
        1 + normal(k_w, (width,), 0.25),
    )


def normal(key, shape, std=1.0):
    return (std * jax.random.normal(key, shape)).astype(jnp.bfloat16)
