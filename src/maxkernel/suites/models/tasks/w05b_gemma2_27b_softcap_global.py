"""w05b: soft-capped causal attention, a global layer of Gemma-2-27B.

s = 50 tanh(q k^T 144^-1/2 / 50), then query i sees all keys up to i, then softmax in float32, times
v. Query head h reads key/value head h // 2. Full size: 8192 positions, 32 query and 16 key/value
heads of 128. q has a standard deviation of 12, so that the cap bends the tail.
"""

import jax
import jax.numpy as jnp

TOLERANCE = {"atol": 1e-2, "rtol": 1e-2}

SCALE, CAP = 144**-0.5, 50.0


def reference(q, k, v):
    """q: (B, S, Hq, D); k, v: (B, S, Hkv, D). Returns (B, S, Hq, D)."""
    length = q.shape[1]
    group = q.shape[2] // k.shape[2]
    k, v = jnp.repeat(k, group, axis=2), jnp.repeat(v, group, axis=2)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k, preferred_element_type=jnp.float32) * SCALE
    scores = CAP * jnp.tanh(scores / CAP)
    visible = jnp.arange(length)[:, None] >= jnp.arange(length)
    p = jax.nn.softmax(jnp.where(visible, scores, -jnp.inf), axis=-1)
    return jnp.einsum("bhqk,bkhd->bqhd", p.astype(v.dtype), v)


def inputs(key):
    return draw(key, batch=1, length=8192, heads=32, kv_heads=16, width=128)


def check_inputs(key):
    return draw(key, batch=2, length=512, heads=4, kv_heads=2, width=128)


def draw(key, batch, length, heads, kv_heads, width):
    q, k, v = jax.random.split(key, 3)
    kv_shape = (batch, length, kv_heads, width)
    return normal(q, (batch, length, heads, width), 12.0), normal(k, kv_shape), normal(v, kv_shape)


def normal(key, shape, std=1.0):
    return (std * jax.random.normal(key, shape)).astype(jnp.bfloat16)
