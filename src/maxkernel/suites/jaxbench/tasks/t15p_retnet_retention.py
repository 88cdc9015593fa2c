"""15p: multi-scale retention in quadratic form, RetNet-6.7B.

Head h decays by gamma_h = 1 - 2^(-5-h) per step: s = (q k^T) * gamma^(i-j) for j <= i, each row
divided by max(sum |s|, 1), then times v. Scores are float32 and unscaled, p is rounded to
bfloat16. Full size: 4 items, 16 heads, 4096 positions, head dimension 256.
"""

import jax
import jax.numpy as jnp

EDITION = "hardened"
TOLERANCE = {"atol": 3e-3, "rtol": 1e-2}


def reference(q, k, v):
    """q, k, v: (B, H, S, D). Returns (B, H, S, D)."""
    heads, length = q.shape[1:3]
    gamma = 1.0 - 2.0 ** (-5.0 - jnp.arange(heads, dtype=jnp.float32))
    position = jnp.arange(length, dtype=jnp.float32)
    distance = position[:, None] - position
    decay = jnp.exp(jnp.log(gamma)[:, None, None] * jnp.maximum(distance, 0.0))
    decay = jnp.where(distance >= 0, decay, 0.0)

    q32, k32 = q.astype(jnp.float32), k.astype(jnp.float32)
    s = jnp.einsum("bhqd,bhkd->bhqk", q32, k32) * decay
    norm = jnp.maximum(jnp.sum(jnp.abs(s), axis=-1, keepdims=True), 1.0)
    return jnp.einsum("bhqk,bhkd->bhqd", (s / norm).astype(v.dtype), v)


def inputs(key):
    return draw(key, batch=4, heads=16, length=4096, width=256)


def check_inputs(key):
    return draw(key, batch=2, heads=4, length=512, width=256)


def draw(key, batch, heads, length, width):
    q, k, v = jax.random.split(key, 3)
    shape = (batch, heads, length, width)
    return normal(q, shape), normal(k, shape), normal(v, shape)


def normal(key, shape, std=1.0):
    """Normal draws; the hardened edition rounds float32 draws, bfloat16 ones take few values."""
    if EDITION == "hardened":
        return (std * jax.random.normal(key, shape)).astype(jnp.bfloat16)
    return jax.random.normal(key, shape, jnp.bfloat16) * std
