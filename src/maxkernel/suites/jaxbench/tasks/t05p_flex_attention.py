"""5p: causal attention with an additive position bias per head (flex attention).

Per batch item and head: o = softmax(q k^T / sqrt(D) + bias[h], causal) v, in bfloat16. The bias
is shared by the batch. Full size: 4 items, 64 heads, 4096 positions, head dimension 128; the bias
alone is 2 GiB.

As published, neither the logits nor the bias matter: the running mean of v passes. The hardened
edition doubles q and draws k, v and the bias with unit variance.
"""

import jax
import jax.numpy as jnp

EDITION = "hardened"
TOLERANCE = {"atol": 7e-3, "rtol": 1e-2}

Q_STD, KV_STD, BIAS_STD = (2.0, 1.0, 1.0) if EDITION == "hardened" else (1.0, 0.02, 0.01)


def reference(q, k, v, bias):
    """q, k, v: (B, H, S, D); bias: (H, S, S). Returns (B, H, S, D)."""
    length, width = q.shape[2:]
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) * width**-0.5 + bias
    causal = jnp.tril(jnp.ones((length, length), bool))
    p = jax.nn.softmax(jnp.where(causal, scores, -1e30), axis=-1)
    return jnp.einsum("bhqk,bhkd->bhqd", p, v)


def inputs(key):
    return draw(key, batch=4, heads=64, length=4096, width=128)


def check_inputs(key):
    return draw(key, batch=2, heads=4, length=512, width=128)


def draw(key, batch, heads, length, width):
    q, k, v, bias = jax.random.split(key, 4)
    shape = (batch, heads, length, width)
    return (
        normal(q, shape, Q_STD),
        normal(k, shape, KV_STD),
        normal(v, shape, KV_STD),
        normal(bias, (heads, length, length), BIAS_STD),
    )


def normal(key, shape, std=1.0):
    """Normal draws; the hardened edition rounds float32 draws, bfloat16 ones take few values."""
    if EDITION == "hardened":
        return (std * jax.random.normal(key, shape)).astype(jnp.bfloat16)
    return jax.random.normal(key, shape, jnp.bfloat16) * std
