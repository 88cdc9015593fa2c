"""16p: state-space duality in quadratic form, after Mamba-2 2.7B.

Step j of a head keeps a_j = sigmoid(A_j) of the state: s_ij = (q_i k_j) a_{j+1} ... a_i for
j <= i, each row divided by max(|sum s|, 1), then times v. Scores and decays are float32, p is
rounded to bfloat16. Full size: 4 items, 64 heads, 4096 positions, width 64.

As published, A = -4 + N(0, 1/4): the memory is gone after three steps and a band of three
diagonals passes. The hardened edition spreads the mean of A from 1 to 7 over the heads (it keeps
0.73 to 0.999 per step).
"""

import jax
import jax.numpy as jnp

EDITION = "hardened"
TOLERANCE = {"atol": 1e-1, "rtol": 1e-2}


def reference(q, k, v, a_logit):
    """q, k, v: (B, H, S, D); a_logit: (B, H, S) float32. Returns (B, H, S, D)."""
    length = q.shape[2]
    c = jnp.cumsum(jnp.log(jax.nn.sigmoid(a_logit) + 1e-8), axis=-1)
    causal = jnp.tril(jnp.ones((length, length), bool))
    decay = jnp.exp(jnp.where(causal, c[..., :, None] - c[..., None, :], -1e30))

    q32, k32 = q.astype(jnp.float32), k.astype(jnp.float32)
    s = jnp.einsum("bhqd,bhkd->bhqk", q32, k32) * decay
    norm = jnp.maximum(jnp.abs(jnp.sum(s, axis=-1, keepdims=True)), 1.0)
    return jnp.einsum("bhqk,bhkd->bhqd", (s / norm).astype(v.dtype), v)


def inputs(key):
    return draw(key, batch=4, heads=64, length=4096, width=64)


def check_inputs(key):
    return draw(key, batch=2, heads=4, length=512, width=64)


def draw(key, batch, heads, length, width):
    q, k, v, a, _ = jax.random.split(key, 5)
    shape = (batch, heads, length, width)
    mean = jnp.linspace(1.0, 7.0, heads)[:, None] if EDITION == "hardened" else -4.0
    a_logit = 0.5 * jax.random.normal(a, shape[:3]) + mean
    return normal(q, shape), normal(k, shape), normal(v, shape), a_logit


def normal(key, shape, std=1.0):
    """Normal draws; the hardened edition rounds float32 draws, bfloat16 ones take few values."""
    if EDITION == "hardened":
        return (std * jax.random.normal(key, shape)).astype(jnp.bfloat16)
    return jax.random.normal(key, shape, jnp.bfloat16) * std
