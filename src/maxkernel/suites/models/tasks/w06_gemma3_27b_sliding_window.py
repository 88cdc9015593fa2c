"""w06: sliding-window attention with query/key norm, a local layer of Gemma-3-27B.

q' = q / sqrt(mean(q^2) + 1e-6) (1 + wq) over the head dimension in float32, k' likewise (rotary
position is left out); query i sees the last `window` keys up to i; o = softmax(q' k'^T 168^-1/2) v
with q', k' rounded to bfloat16 and the softmax in float32. Query head h reads key/value head
h // 2. Full size: 8192 positions, window 1024, 32 query and 16 key/value heads of 128.
"""

import jax
import jax.numpy as jnp
from jax import lax

TOLERANCE = {"atol": 6e-3, "rtol": 1e-2}

SCALE, EPS = 168**-0.5, 1e-6


def reference(q, k, v, w_q, w_k, window):
    """q: (B, S, Hq, D); k, v: (B, S, Hkv, D); w_q, w_k: (D,); window: int.

    Returns (B, S, Hq, D).
    """
    length = q.shape[1]
    group = q.shape[2] // k.shape[2]
    q, k = rms_norm(q, w_q), rms_norm(k, w_k)
    k, v = jnp.repeat(k, group, axis=2), jnp.repeat(v, group, axis=2)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k, preferred_element_type=jnp.float32) * SCALE
    distance = jnp.arange(length)[:, None] - jnp.arange(length)
    visible = (distance >= 0) & (distance < window)
    p = jax.nn.softmax(jnp.where(visible, scores, -jnp.inf), axis=-1)
    return jnp.einsum("bhqk,bkhd->bqhd", p.astype(v.dtype), v)


def rms_norm(t, weight):
    t32 = t.astype(jnp.float32)
    t32 = t32 * lax.rsqrt(jnp.mean(t32 * t32, axis=-1, keepdims=True) + EPS)
    return (t32 * (1.0 + weight.astype(jnp.float32))).astype(t.dtype)


def inputs(key):
    return *draw(key, batch=1, length=8192, heads=32, kv_heads=16, width=128), 1024


def check_inputs(key):
    return *draw(key, batch=2, length=640, heads=4, kv_heads=2, width=128), 128


def draw(key, batch, length, heads, kv_heads, width):
    q, k, v, w_q, w_k = jax.random.split(key, 5)
    kv_shape = (batch, length, kv_heads, width)
    return (
        normal(q, (batch, length, heads, width)),
        normal(k, kv_shape),
        normal(v, kv_shape),
        normal(w_q, (width,), 0.25, 0.5),
        normal(w_k, (width,), 0.25, 0.5),
    )


def normal(key, shape, std=1.0, mean=0.0):
    return (mean + std * jax.random.normal(key, shape)).astype(jnp.bfloat16)
