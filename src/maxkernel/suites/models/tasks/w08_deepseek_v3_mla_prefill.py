"""w08: the core of multi-head latent attention in prefill, DeepSeek-V3.

Queries and keys are 192 wide, values 128; the last 64 columns of the keys are shared by all heads.
o = softmax(q k^T 0.13523, causal) v; the scale is 192^-1/2 (0.1 ln 40 + 1)^2. Softmax in float32.
Full size: 4096 positions, 128 heads.
"""

import math

import jax
import jax.numpy as jnp

TOLERANCE = {"atol": 5e-3, "rtol": 1e-2}

SCALE = 192**-0.5 * (0.1 * math.log(40.0) + 1.0) ** 2


def reference(q, k_nope, k_rope, v):
    """q: (B, S, H, 192); k_nope, v: (B, S, H, 128); k_rope: (B, S, 64). Returns (B, S, H, 128)."""
    length = q.shape[1]
    k_rope = jnp.broadcast_to(k_rope[:, :, None], (*k_nope.shape[:3], k_rope.shape[-1]))
    k = jnp.concatenate([k_nope, k_rope], axis=-1)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k, preferred_element_type=jnp.float32) * SCALE
    causal = jnp.tril(jnp.ones((length, length), bool))
    p = jax.nn.softmax(jnp.where(causal, scores, -jnp.inf), axis=-1)
    return jnp.einsum("bhqk,bkhd->bqhd", p.astype(v.dtype), v)


def inputs(key):
    return draw(key, batch=1, length=4096, heads=128)


def check_inputs(key):
    return draw(key, batch=2, length=512, heads=4)


def draw(key, batch, length, heads):
    q, k_nope, k_rope, v = jax.random.split(key, 4)
    return (
        normal(q, (batch, length, heads, 192)),
        normal(k_nope, (batch, length, heads, 128)),
        normal(k_rope, (batch, length, 64)),
        normal(v, (batch, length, heads, 128)),
    )


def normal(key, shape, std=1.0):
    return (std * jax.random.normal(key, shape)).astype(jnp.bfloat16)
