"""w02: paged decode attention, Llama-3.1-70B, pages of 16.

Logical position p of sequence s lies in page table[s, p // 16], slot p % 16. Query head h reads
key/value head h // 8: o_s = softmax(q_s K_s^T / sqrt(D), positions < lengths[s]) V_s, softmax in
float32. Unused table entries point at a spare page of large values. Full size: 32 sequences with
contexts up to 8192 (log-uniform, with 1, 16, 17 and 8192 among them), 64 query and 8 key/value
heads of 128.
"""

import jax
import jax.numpy as jnp

TOLERANCE = {"atol": 1e-2, "rtol": 1e-2}


def reference(q, k_pages, v_pages, lengths, table):
    """q: (n, Hq, D); pages: (P, page, Hkv, D); lengths: (n,); table: (n, pages per sequence).

    Returns (n, Hq, D).
    """
    sequences, heads, width = q.shape
    kv_heads = k_pages.shape[2]
    context = table.shape[1] * k_pages.shape[1]
    k = k_pages[table].reshape(sequences, context, kv_heads, width)
    v = v_pages[table].reshape(sequences, context, kv_heads, width)
    q = q.reshape(sequences, kv_heads, heads // kv_heads, width)
    scores = jnp.einsum("sgrd,spgd->sgrp", q, k, preferred_element_type=jnp.float32)
    valid = jnp.arange(context) < lengths[:, None, None, None]
    p = jax.nn.softmax(jnp.where(valid, scores * width**-0.5, -jnp.inf), axis=-1)
    o = jnp.einsum("sgrp,spgd->sgrd", p.astype(v.dtype), v)
    return o.reshape(sequences, heads, width)


def inputs(key):
    return draw(key, sequences=32, heads=64, kv_heads=8, width=128, page=16, pages=512)


def check_inputs(key):
    return draw(key, sequences=8, heads=64, kv_heads=8, width=128, page=16, pages=32)


def draw(key, sequences, heads, kv_heads, width, page, pages):
    k_q, k_k, k_v, k_lengths, k_table = jax.random.split(key, 5)
    used, spare = sequences * pages, sequences * pages // 10
    order = jax.random.permutation(k_table, jnp.arange(used + spare, dtype=jnp.int32))
    lengths = draw_lengths(k_lengths, sequences, page * pages)
    unused = jnp.arange(pages) * page >= lengths[:, None]
    table = jnp.where(unused, order[-1], order[:used].reshape(sequences, pages))
    pool = (used + spare, page, kv_heads, width)
    return (
        normal(k_q, (sequences, heads, width), 2.5),
        normal(k_k, pool).at[order[-1]].set(100.0),
        normal(k_v, pool).at[order[-1]].set(100.0),
        lengths,
        table,
    )


def draw_lengths(key, sequences, context):
    """Log-uniform from 1 to the context, with 1, 16, 17 and the full context among them."""
    k_any, k_order = jax.random.split(key)
    exponent = jax.random.uniform(k_any, (sequences,))
    lengths = jnp.floor((context + 1.0) ** exponent).astype(jnp.int32)
    lengths = jnp.clip(lengths, 1, context).at[:4].set(jnp.array([1, 16, 17, context]))
    return jax.random.permutation(k_order, lengths)


def normal(key, shape, std=1.0):
    return (std * jax.random.normal(key, shape)).astype(jnp.bfloat16)
