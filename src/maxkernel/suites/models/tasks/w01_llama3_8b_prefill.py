"""w01: causal grouped-query attention of a prefill, Llama-3.1-8B.

Query head h reads key/value head h // (Hq / Hkv): o = softmax(q k^T / sqrt(D), causal) v. Scores
and softmax are float32, inputs and result bfloat16. Full size: 8192 positions, 32 query and 8
key/value heads of 128.
"""

import jax
import jax.numpy as jnp

TOLERANCE = {"atol": 6e-3, "rtol": 1e-2}


def reference(q, k, v):
    """q: (B, S, Hq, D); k, v: (B, S, Hkv, D). Returns (B, S, Hq, D)."""
    length, heads, width = q.shape[1:]
    group = heads // k.shape[2]
    k, v = jnp.repeat(k, group, axis=2), jnp.repeat(v, group, axis=2)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k, preferred_element_type=jnp.float32)
    causal = jnp.tril(jnp.ones((length, length), bool))
    p = jax.nn.softmax(jnp.where(causal, scores * width**-0.5, -jnp.inf), axis=-1)
    return jnp.einsum("bhqk,bkhd->bqhd", p.astype(v.dtype), v)


def inputs(key):
    return draw(key, batch=1, length=8192, heads=32, kv_heads=8, width=128)


def check_inputs(key):
    return draw(key, batch=2, length=512, heads=8, kv_heads=2, width=128)


def draw(key, batch, length, heads, kv_heads, width):
    q, k, v = jax.random.split(key, 3)
    kv_shape = (batch, length, kv_heads, width)
    return normal(q, (batch, length, heads, width), 2.0), normal(k, kv_shape), normal(v, kv_shape)


def normal(key, shape, std=1.0):
    return (std * jax.random.normal(key, shape)).astype(jnp.bfloat16)
