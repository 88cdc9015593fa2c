"""w08: the core of multi-head latent attention in prefill, DeepSeek-V3.

Queries and keys are 192 wide, values 128; the last 64 columns of the keys are shared by all heads.
o = softmax(q k^T 0.13523, causal) v; the scale is 192^-1/2 (0.1 ln 40 + 1)^2. Softmax in float32.
Full size: 4096 positions, 128 heads.
"""

import math

import jax
import jax.numpy as jnp
from jax import lax

TOLERANCE = {"atol": 5e-3, "rtol": 1e-2}

SCALE = 192**-0.5 * (0.1 * math.log(40.0) + 1.0) ** 2


def reference(q, k_nope, k_rope, v):
    """q: (B, S, H, 192); k_nope, v: (B, S, H, 128); k_rope: (B, S, 64). Returns (B, S, H, 128).

    Head by head: all scores at once do not fit into the memory of a v6e.
    """
    length = q.shape[1]
    causal = jnp.tril(jnp.ones((length, length), bool))

    def one_head(head):
        q, k_nope, v = head
        k = jnp.concatenate([k_nope, k_rope], axis=-1)
        scores = jnp.einsum("bqd,bkd->bqk", q, k, preferred_element_type=jnp.float32) * SCALE
        p = jax.nn.softmax(jnp.where(causal, scores, -jnp.inf), axis=-1)
        return jnp.einsum("bqk,bkd->bqd", p.astype(v.dtype), v)

    heads = tuple(jnp.moveaxis(t, 2, 0) for t in (q, k_nope, v))
    return jnp.moveaxis(lax.map(one_head, heads), 0, 2)


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
