"""w11: gated delta net, the linear attention of Qwen3-Next-80B-A3B, prefill.

Per value head, with a float32 state S (key width x value width) from S0, key head h // 2:
q' = q / |q| / sqrt(128), k' = k / |k| (1e-6 under the root); g_t = exp(-e^{A_log} softplus(a_t +
dt_bias)); beta_t = sigmoid(b_t);

    S <- g_t S;  S <- S + k'_t^T beta_t (v_t - k'_t S);  o_t = q'_t S.

Returns o and the last state. The reference is the chunked form: inside a chunk of 64 steps the
corrections solve a triangular system. Full size: 8192 steps, 16 key and 32 value heads of 128.
"""

import jax
import jax.numpy as jnp
from jax import lax

TOLERANCE = {"atol": 1.5e-3, "rtol": 5e-3}

CHUNK = 64


def reference(q, k, v, a, b, a_log, dt_bias, state):
    """q, k: (B, S, Hk, D); v: (B, S, H, Dv); a, b: (B, S, H); a_log, dt_bias: (H,) float32.

    state: (B, H, D, Dv) float32. Returns o (B, S, H, Dv) and the state after step S.
    """
    batch, length, heads, width = v.shape
    repeats = heads // q.shape[2]
    log_decay = -jnp.exp(a_log) * jax.nn.softplus(a.astype(jnp.float32) + dt_bias)
    beta = jax.nn.sigmoid(b.astype(jnp.float32))
    q = jnp.repeat(unit(q), repeats, axis=2) * q.shape[-1] ** -0.5
    k = jnp.repeat(unit(k), repeats, axis=2)

    chunked = [in_chunks(t) for t in (q, k, v.astype(jnp.float32), log_decay, beta)]
    state, o = lax.scan(one_chunk, state, chunked)
    o = o.transpose(1, 0, 3, 2, 4).reshape(batch, -1, heads, width)[:, :length]
    return o.astype(v.dtype), state


def one_chunk(state, chunk):
    """Advances (B, H, D, Dv) by one chunk of (B, H, CHUNK, ...) steps."""
    q, k, v, log_decay, beta = chunk
    g = jnp.cumsum(log_decay, axis=-1)
    step = jnp.arange(CHUNK)
    causal = step[:, None] >= step
    decay = jnp.exp(jnp.where(causal, g[..., :, None] - g[..., None, :], -jnp.inf))

    overlap = jnp.einsum("bhid,bhjd->bhij", k, k) * decay * beta[..., :, None]
    system = jnp.where(step[:, None] > step, overlap, 0.0) + jnp.eye(CHUNK)
    known = v - jnp.exp(g)[..., None] * jnp.einsum("bhid,bhdv->bhiv", k, state)
    correction = lax.linalg.triangular_solve(
        system, known * beta[..., None], left_side=True, lower=True, unit_diagonal=True
    )

    scores = jnp.einsum("bhid,bhjd->bhij", q, k) * decay
    o = jnp.exp(g)[..., None] * jnp.einsum("bhid,bhdv->bhiv", q, state)
    o = o + jnp.einsum("bhij,bhjv->bhiv", scores, correction)
    left = jnp.exp(g[..., -1:] - g)
    state = jnp.exp(g[..., -1])[..., None, None] * state
    return state + jnp.einsum("bhid,bhi,bhiv->bhdv", k, left, correction), o


def unit(t):
    t = t.astype(jnp.float32)
    return t * lax.rsqrt(jnp.sum(t * t, axis=-1, keepdims=True) + 1e-6)


def in_chunks(t):
    """(B, S, H, ...) to (chunks, B, H, CHUNK, ...); padding steps of zeros change nothing."""
    pad = [(0, 0), (0, -t.shape[1] % CHUNK)] + [(0, 0)] * (t.ndim - 2)
    t = jnp.pad(t, pad)
    t = t.reshape(t.shape[0], -1, CHUNK, *t.shape[2:])
    return jnp.moveaxis(jnp.moveaxis(t, 3, 2), 1, 0)


def inputs(key):
    return draw(key, batch=1, length=8192, key_heads=16, heads=32, width=128)


def check_inputs(key):
    return draw(key, batch=1, length=456, key_heads=2, heads=4, width=128)


def draw(key, batch, length, key_heads, heads, width):
    """Correlated keys and slow decays: otherwise neither the delta term nor old states matter."""
    keys = jax.random.split(key, 9)
    direction = 1.5 * jax.random.normal(keys[1], (key_heads, width))
    k = direction + jax.random.normal(keys[2], (batch, length, key_heads, width))
    rate = jax.random.uniform(keys[6], (heads,), minval=jnp.log(0.02), maxval=jnp.log(2.0))
    return (
        normal(keys[0], (batch, length, key_heads, width)),
        k.astype(jnp.bfloat16),
        normal(keys[3], (batch, length, heads, width)),
        normal(keys[4], (batch, length, heads)),
        normal(keys[5], (batch, length, heads)),
        rate,
        -3.0 + jax.random.normal(keys[7], (heads,)),
        0.3 * jax.random.normal(keys[8], (batch, heads, width, width)),
    )


def normal(key, shape, std=1.0):
    return (std * jax.random.normal(key, shape)).astype(jnp.bfloat16)
