"""w13: state-space duality, Mamba-2 2.7B.

Per head, with a float32 state h (width x states): h_t = e^{dt_t A} h_{t-1} + dt_t x_t B_t^T;
y_t = h_t C_t + D x_t, A = -e^{A_log}. B and C are shared by all heads. Returns y and the last
state. The reference is the chunked form: inside a chunk of 256 steps the quadratic sum, between
chunks the state. Full size: 4096 steps, 80 heads of 64, 128 states.
"""

import jax
import jax.numpy as jnp
from jax import lax

TOLERANCE = {"atol": 2e-2, "rtol": 1e-2}

CHUNK = 256


def reference(x, dt, a_log, b, c, d):
    """x: (B, S, H, P); dt: (B, S, H), a_log: (H,) float32; b, c: (B, S, N); d: (H,).

    Returns y (B, S, H, P) and the state (B, H, P, N) float32.
    """
    batch, length, heads, width = x.shape
    x32 = x.astype(jnp.float32)
    log_decay = -jnp.exp(a_log) * dt
    chunked = [in_chunks(t.astype(jnp.float32)) for t in (x32 * dt[..., None], log_decay, b, c)]
    state = jnp.zeros((batch, heads, width, b.shape[-1]), jnp.float32)
    state, y = lax.scan(one_chunk, state, chunked)
    y = jnp.moveaxis(y, 0, 1).reshape(batch, -1, heads, width)[:, :length]
    return (y + d.astype(jnp.float32)[:, None] * x32).astype(x.dtype), state


def one_chunk(state, chunk):
    """Advances (B, H, P, N) by one chunk of (B, CHUNK, ...) steps."""
    x, log_decay, b, c = chunk
    g = jnp.cumsum(log_decay, axis=1)
    causal = jnp.tril(jnp.ones((CHUNK, CHUNK), bool))[:, :, None]
    decay = jnp.exp(jnp.where(causal, g[:, :, None] - g[:, None, :], -jnp.inf))
    scores = jnp.einsum("bin,bjn->bij", c, b)[..., None] * decay
    y = jnp.einsum("bijh,bjhp->bihp", scores, x)
    y = y + jnp.einsum("bin,bhpn,bih->bihp", c, state, jnp.exp(g))
    left = jnp.exp(g[:, -1:] - g)
    state = jnp.exp(g[:, -1])[..., None, None] * state
    return state + jnp.einsum("bjhp,bjn,bjh->bhpn", x, b, left), y


def in_chunks(t):
    """(B, S, ...) to (chunks, B, CHUNK, ...), padded with zeros: steps that change nothing."""
    pad = [(0, 0), (0, -t.shape[1] % CHUNK)] + [(0, 0)] * (t.ndim - 2)
    t = jnp.pad(t, pad)
    return jnp.moveaxis(t.reshape(t.shape[0], -1, CHUNK, *t.shape[2:]), 1, 0)


def inputs(key):
    return draw(key, batch=1, length=4096, heads=80, width=64, states=128)


def check_inputs(key):
    return draw(key, batch=2, length=600, heads=4, width=64, states=128)


def draw(key, batch, length, heads, width, states):
    """Rates down to 0.5 and steps down to 1e-3: some heads must remember."""
    k_x, k_dt, k_a, k_b, k_c, k_d = jax.random.split(key, 6)
    return (
        normal(k_x, (batch, length, heads, width)),
        jnp.exp(uniform(k_dt, (batch, length, heads), jnp.log(1e-3), jnp.log(3e-2))),
        uniform(k_a, (heads,), jnp.log(0.5), jnp.log(16.0)),
        normal(k_b, (batch, length, states)),
        normal(k_c, (batch, length, states)),
        1 + normal(k_d, (heads,), 0.25),
    )


def uniform(key, shape, low, high):
    return jax.random.uniform(key, shape, minval=low, maxval=high)


def normal(key, shape, std=1.0):
    return (std * jax.random.normal(key, shape)).astype(jnp.bfloat16)
