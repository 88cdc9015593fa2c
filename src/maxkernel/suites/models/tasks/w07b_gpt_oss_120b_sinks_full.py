"""w07b: causal attention with sinks, a full layer of gpt-oss-120b.

p_ij = e^{s_ij} / (e^{sink_h} + sum_j e^{s_ij}) with s = q k^T / 8 over all keys up to i: the
learned sink of a head takes weight and adds no value. The maximum is over scores and sink.
Softmax in float32. Query head h reads key/value head h // 8. Full size: 4096 positions, 64 query
and 8 key/value heads of 64.
"""

import jax
import jax.numpy as jnp

TOLERANCE = {"atol": 5e-3, "rtol": 1e-2}


def reference(q, k, v, sink):
    """q: (B, S, Hq, D); k, v: (B, S, Hkv, D); sink: (Hq,) float32. Returns (B, S, Hq, D)."""
    length, heads, width = q.shape[1:]
    group = heads // k.shape[2]
    k, v = jnp.repeat(k, group, axis=2), jnp.repeat(v, group, axis=2)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k, preferred_element_type=jnp.float32) * width**-0.5
    visible = jnp.arange(length)[:, None] >= jnp.arange(length)
    scores = jnp.where(visible, scores, -jnp.inf)
    sink = sink[:, None, None]
    top = jnp.maximum(jnp.max(scores, axis=-1, keepdims=True), sink)
    e = jnp.exp(scores - top)
    p = e / (jnp.sum(e, axis=-1, keepdims=True) + jnp.exp(sink - top))
    return jnp.einsum("bhqk,bkhd->bqhd", p.astype(v.dtype), v)


def inputs(key):
    return draw(key, batch=1, length=4096, heads=64, kv_heads=8, width=64)


def check_inputs(key):
    return draw(key, batch=2, length=384, heads=16, kv_heads=2, width=64)


def draw(key, batch, length, heads, kv_heads, width):
    q, k, v, sink = jax.random.split(key, 4)
    kv_shape = (batch, length, kv_heads, width)
    return (
        normal(q, (batch, length, heads, width), 2.0),
        normal(k, kv_shape),
        normal(v, kv_shape),
        3.0 + 2.0 * jax.random.normal(sink, (heads,)),
    )


def normal(key, shape, std=1.0):
    return (std * jax.random.normal(key, shape)).astype(jnp.bfloat16)
