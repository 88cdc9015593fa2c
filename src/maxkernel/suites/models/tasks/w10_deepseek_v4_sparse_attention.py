"""w10: sparse attention with sinks over selected rows, DeepSeek-V4-Flash.

One latent row is both key and value of all heads. Each query has a list of row indices, -1 for
none: s = q kv^T D^-1/2 over its valid rows; p_j = e^{s_j} / (e^{sink_h} + sum e^{s_j}); o = sum p
kv. The maximum is over scores and sink; softmax in float32. Full size: 2048 queries, 64 heads of
512, 640 indices into 5120 rows, a fifth of them -1.
"""

import jax
import jax.numpy as jnp

TOLERANCE = {"atol": 6e-3, "rtol": 1e-2}


def reference(q, kv, sink, indices):
    """q: (B, m, H, D); kv: (B, rows, D); sink: (H,) float32; indices: (B, m, n) int32.

    Returns (B, m, H, D).
    """
    rows = jax.vmap(lambda table, index: table[index])(kv, jnp.maximum(indices, 0))
    scores = jnp.einsum("bmhd,bmnd->bmhn", q, rows, preferred_element_type=jnp.float32)
    valid = (indices >= 0)[:, :, None]
    scores = jnp.where(valid, scores * q.shape[-1] ** -0.5, -jnp.inf)
    sink = sink[:, None]
    top = jnp.maximum(jnp.max(scores, axis=-1, keepdims=True), sink)
    e = jnp.exp(scores - top)
    p = e / (jnp.sum(e, axis=-1, keepdims=True) + jnp.exp(sink - top))
    return jnp.einsum("bmhn,bmnd->bmhd", p.astype(rows.dtype), rows)


def inputs(key):
    return draw(key, batch=1, queries=2048, heads=64, width=512, rows=5120, chosen=640)


def check_inputs(key):
    return draw(key, batch=2, queries=40, heads=8, width=512, rows=640, chosen=160)


def draw(key, batch, queries, heads, width, rows, chosen):
    k_q, k_kv, k_sink, k_index, k_none = jax.random.split(key, 5)
    order = jnp.argsort(jax.random.uniform(k_index, (batch, queries, rows)), axis=-1)
    none = jax.random.bernoulli(k_none, 0.2, (batch, queries, chosen))
    return (
        normal(k_q, (batch, queries, heads, width), 2.0),
        normal(k_kv, (batch, rows, width)),
        3.0 + 2.0 * jax.random.normal(k_sink, (heads,)),
        jnp.where(none, -1, order[..., :chosen]).astype(jnp.int32),
    )


def normal(key, shape, std=1.0):
    return (std * jax.random.normal(key, shape)).astype(jnp.bfloat16)
