"""1p: causal multi-head attention.

Per batch item and head: o = softmax(q k^T / sqrt(D), causal) v, everything in bfloat16.
Full size: 4 items, 64 heads, 4096 positions, head dimension 128.

The hardened edition doubles q: with unit logits late rows average towards zero, and kernels that
skip old keys stay inside an absolute tolerance.
"""

import jax
import jax.numpy as jnp

EDITION = "hardened"
TOLERANCE = {"atol": 5e-3, "rtol": 1e-2}

Q_STD = 2.0 if EDITION == "hardened" else 1.0


def reference(q, k, v):
    """q, k, v: (B, H, S, D). Returns (B, H, S, D)."""
    length, width = q.shape[2:]
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) * width**-0.5
    causal = jnp.tril(jnp.ones((length, length), bool))
    p = jax.nn.softmax(jnp.where(causal, scores, -1e9), axis=-1)
    return jnp.einsum("bhqk,bhkd->bhqd", p, v)


def inputs(key):
    return draw(key, batch=4, heads=64, length=4096, width=128)


def check_inputs(key):
    return draw(key, batch=2, heads=2, length=1024, width=128)


def draw(key, batch, heads, length, width):
    q, k, v = jax.random.split(key, 3)
    shape = (batch, heads, length, width)
    return normal(q, shape, Q_STD), normal(k, shape), normal(v, shape)


def normal(key, shape, std=1.0):
    """Normal draws; the hardened edition rounds float32 draws, bfloat16 ones take few values."""
    if EDITION == "hardened":
        return (std * jax.random.normal(key, shape)).astype(jnp.bfloat16)
    return jax.random.normal(key, shape, jnp.bfloat16) * std
