"""12p: RMSNorm, Llama-3.1-70B.

y = bf16(x / sqrt(mean(x^2) + 1e-5)) * scale over the last axis; the statistics are float32, the
product with scale is bfloat16. Full size: x (8, 4096, 8192).

As published, rows have unit RMS and skipping the normalisation is wrong on 1 % of the elements.
The hardened edition scales every row by exp(N(0, 1)).
"""

import jax
import jax.numpy as jnp
from jax import lax

EDITION = "hardened"
TOLERANCE = {"atol": 2e-2, "rtol": 1e-2}

EPS = 1e-5


def reference(x, scale):
    """x: (B, S, D); scale: (D,). Returns (B, S, D)."""
    x32 = x.astype(jnp.float32)
    r = lax.rsqrt(jnp.mean(x32 * x32, axis=-1, keepdims=True) + EPS)
    return (x32 * r).astype(x.dtype) * scale


def inputs(key):
    return draw(key, batch=8, length=4096, width=8192)


def check_inputs(key):
    return draw(key, batch=2, length=512, width=2048)


def draw(key, batch, length, width):
    k_x, k_scale = jax.random.split(key)
    if EDITION == "hardened":
        k_x, k_row = jax.random.split(k_x)
        row = jnp.exp(jax.random.normal(k_row, (batch, length, 1)))
        return normal(k_x, (batch, length, width), row), 1 + normal(k_scale, (width,), 0.25)
    return normal(k_x, (batch, length, width)), 1 + normal(k_scale, (width,), 0.1)


def normal(key, shape, std=1.0):
    """Normal draws; the hardened edition rounds float32 draws, bfloat16 ones take few values."""
    if EDITION == "hardened":
        return (std * jax.random.normal(key, shape)).astype(jnp.bfloat16)
    return jax.random.normal(key, shape, jnp.bfloat16) * std
