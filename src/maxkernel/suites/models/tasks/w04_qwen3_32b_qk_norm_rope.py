"""w04: query/key norm, rotary position and causal grouped-query attention, Qwen3-32B, fused.

q' = rope(q / sqrt(mean(q^2) + 1e-6) * wq) and k' likewise, over the head dimension in float32;
rotary halves are paired, f_i = 1e6^(-2i/128). Then o = softmax(q' k'^T / sqrt(D), causal) v with
q', k' rounded to bfloat16 and the softmax in float32. Full size: 4096 positions, 64 query and 8
key/value heads of 128.
"""

import jax
import jax.numpy as jnp
from jax import lax

TOLERANCE = {"atol": 8e-3, "rtol": 1e-2}

THETA, EPS = 1e6, 1e-6


def reference(q, k, v, w_q, w_k):
    """q: (B, S, Hq, D); k, v: (B, S, Hkv, D); w_q, w_k: (D,). Returns (B, S, Hq, D)."""
    length, heads, width = q.shape[1:]
    group = heads // k.shape[2]
    q, k = rotate(rms_norm(q, w_q)).astype(q.dtype), rotate(rms_norm(k, w_k)).astype(k.dtype)
    k, v = jnp.repeat(k, group, axis=2), jnp.repeat(v, group, axis=2)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k, preferred_element_type=jnp.float32)
    causal = jnp.tril(jnp.ones((length, length), bool))
    p = jax.nn.softmax(jnp.where(causal, scores * width**-0.5, -jnp.inf), axis=-1)
    return jnp.einsum("bhqk,bkhd->bqhd", p.astype(v.dtype), v)


def rms_norm(t, weight):
    t = t.astype(jnp.float32)
    return t * lax.rsqrt(jnp.mean(t * t, axis=-1, keepdims=True) + EPS) * weight


def rotate(t):
    """Rotary position, halves paired: t is (B, S, H, D) float32, position 0 first."""
    half = t.shape[-1] // 2
    frequency = THETA ** (-jnp.arange(half, dtype=jnp.float32) / half)
    angle = (jnp.arange(t.shape[1], dtype=jnp.float32)[:, None] * frequency)[:, None, :]
    a, b = t[..., :half], t[..., half:]
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def inputs(key):
    return draw(key, batch=1, length=4096, heads=64, kv_heads=8, width=128)


def check_inputs(key):
    return draw(key, batch=2, length=256, heads=16, kv_heads=2, width=128)


def draw(key, batch, length, heads, kv_heads, width):
    q, k, v, w_q, w_k = jax.random.split(key, 5)
    kv_shape = (batch, length, kv_heads, width)
    return (
        normal(q, (batch, length, heads, width), 3.0),
        normal(k, kv_shape, 0.5),
        normal(v, kv_shape),
        normal(w_q, (width,), 0.25, 1.5),
        normal(w_k, (width,), 0.25, 1.5),
    )


def normal(key, shape, std=1.0, mean=0.0):
    return (mean + std * jax.random.normal(key, shape)).astype(jnp.bfloat16)
