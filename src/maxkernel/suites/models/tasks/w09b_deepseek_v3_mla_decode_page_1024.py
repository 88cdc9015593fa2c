"""w09b: multi-head latent attention in decode, DeepSeek-V3, absorbed, over pages of 1024.

A cache row of 576 holds a latent of 512 and a rotary key of 64, shared by all heads; position p of
sequence s lies in page table[s, p // 1024], slot p % 1024. Per head: a = [q_nope Wuk ; q_rope]
c_p^T 0.13523 over p < length; z = sum softmax(a)_p c_p[:512]; o = z Wuv. Softmax in float32. Unused
table entries point at a spare page of large values. Full size: 64 sequences with ragged contexts up
to 8192, 128 heads.
"""

import math

import jax
import jax.numpy as jnp

TOLERANCE = {"atol": 1e-2, "rtol": 1e-2}

SCALE = 192**-0.5 * (0.1 * math.log(40.0) + 1.0) ** 2
LATENT, ROPE, PAGE = 512, 64, 1024


def reference(q_nope, q_rope, w_uk, w_uv, cache, lengths, table):
    """q_nope: (n, H, 128); q_rope: (n, H, 64); w_uk: (H, 128, 512); w_uv: (H, 512, 128).

    cache: (P, 1024, 576); lengths: (n,); table: (n, pages per sequence). Returns (n, H, 128).
    """
    context = table.shape[1] * PAGE
    rows = cache[table].reshape(table.shape[0], context, LATENT + ROPE)
    q_latent = jnp.einsum("shd,hdc->shc", q_nope, w_uk)
    q = jnp.concatenate([q_latent, q_rope], axis=-1)
    scores = jnp.einsum("shc,spc->shp", q, rows, preferred_element_type=jnp.float32) * SCALE
    valid = jnp.arange(context) < lengths[:, None, None]
    p = jax.nn.softmax(jnp.where(valid, scores, -jnp.inf), axis=-1).astype(rows.dtype)
    z = jnp.einsum("shp,spc->shc", p, rows[..., :LATENT])
    return jnp.einsum("shc,hcd->shd", z, w_uv)


def inputs(key):
    return draw(key, sequences=64, heads=128, pages=8)


def check_inputs(key):
    return draw(key, sequences=4, heads=16, pages=2)


def draw(key, sequences, heads, pages):
    k_nope, k_rope, k_uk, k_uv, k_cache, k_lengths, k_table = jax.random.split(key, 7)
    used, spare = sequences * pages, max(1, sequences * pages // 10)
    order = jax.random.permutation(k_table, jnp.arange(used + spare, dtype=jnp.int32))
    lengths = draw_lengths(k_lengths, sequences, PAGE * pages)
    unused = jnp.arange(pages) * PAGE >= lengths[:, None]
    return (
        normal(k_nope, (sequences, heads, 128)),
        normal(k_rope, (sequences, heads, ROPE)),
        normal(k_uk, (heads, 128, LATENT), LATENT**-0.5),
        normal(k_uv, (heads, LATENT, 128), LATENT**-0.5),
        normal(k_cache, (used + spare, PAGE, LATENT + ROPE)).at[order[-1]].set(100.0),
        lengths,
        jnp.where(unused, order[-1], order[:used].reshape(sequences, pages)),
    )


def draw_lengths(key, sequences, context):
    """Uniform from 1 to the context, with 1, a page and one more, and the full context."""
    k_any, k_order = jax.random.split(key)
    lengths = jax.random.randint(k_any, (sequences,), 1, context + 1, jnp.int32)
    lengths = lengths.at[:3].set(jnp.array([1, PAGE + 1, context]))
    return jax.random.permutation(k_order, lengths)


def normal(key, shape, std=1.0):
    return (std * jax.random.normal(key, shape)).astype(jnp.bfloat16)
