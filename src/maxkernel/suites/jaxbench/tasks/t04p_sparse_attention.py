"""4p: causal grouped-query attention; its only sparsity is the causal mask (splash attention).

Query head h reads key/value head h // (Hq / Hkv): o = softmax(q k^T, causal) v. The scale is
already in q. Full size: 4 items, 64 query and 8 key/value heads, 4096 positions, head dimension
128, bfloat16.

As published, logits have a standard deviation of 0.02, so the running mean of v passes. The
hardened edition draws q 2.5 times and k, v 50 times as large.
"""

import jax
import jax.numpy as jnp

EDITION = "hardened"
TOLERANCE = {"atol": 8e-3, "rtol": 1e-2}

Q_STD, KV_STD = (2.5, 1.0) if EDITION == "hardened" else (1.0, 0.02)


def reference(q, k, v):
    """q: (B, Hq, S, D), scaled by D^-1/2; k, v: (B, Hkv, S, D). Returns (B, Hq, S, D)."""
    length = q.shape[2]
    group = q.shape[1] // k.shape[1]
    k = jnp.repeat(k, group, axis=1)
    v = jnp.repeat(v, group, axis=1)
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k)
    causal = jnp.tril(jnp.ones((length, length), bool))
    p = jax.nn.softmax(jnp.where(causal, scores, -1e30), axis=-1)
    return jnp.einsum("bhqk,bhkd->bhqd", p, v)


def inputs(key):
    return draw(key, batch=4, heads=64, kv_heads=8, length=4096, width=128)


def check_inputs(key):
    return draw(key, batch=2, heads=16, kv_heads=2, length=512, width=128)


def draw(key, batch, heads, kv_heads, length, width):
    q, k, v = jax.random.split(key, 3)
    kv_shape = (batch, kv_heads, length, width)
    return (
        normal(q, (batch, heads, length, width), Q_STD * width**-0.5),
        normal(k, kv_shape, KV_STD),
        normal(v, kv_shape, KV_STD),
    )


def normal(key, shape, std=1.0):
    """Normal draws; the hardened edition rounds float32 draws, bfloat16 ones take few values."""
    if EDITION == "hardened":
        return (std * jax.random.normal(key, shape)).astype(jnp.bfloat16)
    return jax.random.normal(key, shape, jnp.bfloat16) * std
