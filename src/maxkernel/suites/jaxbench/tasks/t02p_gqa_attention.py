"""2p: grouped-query causal attention, the core of Llama-3.1-405B.

Query head h reads key/value head h // (Hq / Hkv): o = softmax(q k^T / sqrt(D), causal) v, in
bfloat16, sequence-major layout. Full size: 4 items, 4096 positions, 128 query and 8 key/value
heads of 128.

The hardened edition doubles q (see 1p).
"""

import jax
import jax.numpy as jnp

EDITION = "hardened"
TOLERANCE = {"atol": 7e-3, "rtol": 1e-2}

Q_STD = 2.0 if EDITION == "hardened" else 1.0


def reference(q, k, v):
    """q: (B, S, Hq, D); k, v: (B, S, Hkv, D). Returns (B, S, Hq, D)."""
    length, heads, width = q.shape[1:]
    group = heads // k.shape[2]
    k = jnp.repeat(k, group, axis=2)
    v = jnp.repeat(v, group, axis=2)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * width**-0.5
    causal = jnp.tril(jnp.ones((length, length), bool))
    p = jax.nn.softmax(jnp.where(causal, scores, -1e9), axis=-1)
    return jnp.einsum("bhqk,bkhd->bqhd", p, v)


def inputs(key):
    return draw(key, batch=4, length=4096, heads=128, kv_heads=8, width=128)


def check_inputs(key):
    return draw(key, batch=2, length=256, heads=32, kv_heads=2, width=128)


def draw(key, batch, length, heads, kv_heads, width):
    q, k, v = jax.random.split(key, 3)
    kv_shape = (batch, length, kv_heads, width)
    return (
        normal(q, (batch, length, heads, width), Q_STD),
        normal(k, kv_shape),
        normal(v, kv_shape),
    )


def normal(key, shape, std=1.0):
    """Normal draws; the hardened edition rounds float32 draws, bfloat16 ones take few values."""
    if EDITION == "hardened":
        return (std * jax.random.normal(key, shape)).astype(jnp.bfloat16)
    return jax.random.normal(key, shape, jnp.bfloat16) * std
