"""w12: gated delta net, the linear attention of Qwen3-Next-80B-A3B, one decode step.

Per sequence and value head, with a float32 state S (key width x value width), key head h // 2:
q' = q / |q| / sqrt(128), k' = k / |k| (1e-6 under the root); g = exp(-e^{A_log} softplus(a +
dt_bias)); beta = sigmoid(b);

    S <- g S;  S <- S + k'^T beta (v - k' S);  o = q' S.

Returns o and the new state. Bandwidth bound: the states are 134 MB. Full size: 64 sequences, 16 key
and 32 value heads of 128.
"""

import jax
import jax.numpy as jnp
from jax import lax

TOLERANCE = {"atol": 5e-4, "rtol": 1e-3}


def reference(q, k, v, a, b, a_log, dt_bias, state):
    """q, k: (n, Hk, D); v: (n, H, Dv); a, b: (n, H); a_log, dt_bias: (H,) float32.

    state: (n, H, D, Dv) float32. Returns o (n, H, Dv) and the new state.
    """
    repeats = v.shape[1] // q.shape[1]
    g = jnp.exp(-jnp.exp(a_log) * jax.nn.softplus(a.astype(jnp.float32) + dt_bias))
    beta = jax.nn.sigmoid(b.astype(jnp.float32))
    q = jnp.repeat(unit(q), repeats, axis=1) * q.shape[-1] ** -0.5
    k = jnp.repeat(unit(k), repeats, axis=1)

    state = g[..., None, None] * state
    missing = v.astype(jnp.float32) - jnp.sum(k[..., None] * state, axis=2)
    state = state + k[..., None] * (beta[..., None] * missing)[:, :, None, :]
    return jnp.sum(q[..., None] * state, axis=2).astype(v.dtype), state


def unit(t):
    t = t.astype(jnp.float32)
    return t * lax.rsqrt(jnp.sum(t * t, axis=-1, keepdims=True) + 1e-6)


def inputs(key):
    return draw(key, sequences=64, key_heads=16, heads=32, width=128)


def check_inputs(key):
    return draw(key, sequences=4, key_heads=2, heads=4, width=128)


def draw(key, sequences, key_heads, heads, width):
    keys = jax.random.split(key, 8)
    rate = jax.random.uniform(keys[5], (heads,), minval=jnp.log(0.02), maxval=jnp.log(2.0))
    return (
        normal(keys[0], (sequences, key_heads, width)),
        normal(keys[1], (sequences, key_heads, width)),
        normal(keys[2], (sequences, heads, width)),
        normal(keys[3], (sequences, heads)),
        normal(keys[4], (sequences, heads)),
        rate,
        -3.0 + jax.random.normal(keys[6], (heads,)),
        0.3 * jax.random.normal(keys[7], (sequences, heads, width, width)),
    )


def normal(key, shape, std=1.0):
    return (std * jax.random.normal(key, shape)).astype(jnp.bfloat16)
