"""w03: one serving step of Llama-3.1-70B: decodes and prefill chunks over a paged cache.

The token buffer holds the query tokens of the active slots back to back; slot i owns tokens
ends[i] to ends[i+1]. Slots without context are not active, and entries of `ends` past the active
ones mean nothing. A context of kv_lens[i] positions ends with those tokens and lies in pages
table[i] of 256 positions. In a page, head 2g is the key and head 2g + 1 the value of group g;
query head h reads group h // 8. Token t of n attends to positions <= kv_lens - n + t. Softmax is
float32. Rows of unused tokens are 0; unused table entries point at a spare page of large values.
Full size: 4096 tokens, 64 slots of up to 4096 positions, 64 query and 8 key/value heads of 128.
"""

import jax
import jax.numpy as jnp
from jax import lax

TOLERANCE = {"atol": 7e-3, "rtol": 1e-2}

BLOCK = 32


def reference(q, kv_pages, kv_lens, table, ends):
    """q: (T, Hq, D); kv_pages: (P, page, 2 Hkv, D); kv_lens: (slots,); table: (slots, pages).

    ends: (slots + 1,). Returns (T, Hq, D). Works through blocks of 32 query tokens; a slot of n
    tokens has ceil(n / 32) of them.
    """
    tokens, heads, width = q.shape
    slots = kv_lens.shape[0]
    kv_heads = kv_pages.shape[2] // 2
    context = table.shape[1] * kv_pages.shape[1]

    start = ends[:-1]
    counts = jnp.where(kv_lens > 0, ends[1:] - start, 0)
    blocks = (counts + BLOCK - 1) // BLOCK
    last_block = jnp.cumsum(blocks)
    first_block = last_block - blocks

    def attend(item):
        slot = jnp.minimum(jnp.sum(last_block <= item), slots - 1)
        offset = (item - first_block[slot]) * BLOCK + jnp.arange(BLOCK)
        rows = jnp.clip(start[slot] + offset, 0, tokens - 1)
        queries = q[rows].reshape(BLOCK, kv_heads, heads // kv_heads, width)
        kv = kv_pages[table[slot]].reshape(context, 2 * kv_heads, width)
        k, v = kv[:, 0::2], kv[:, 1::2]

        scores = jnp.einsum("qgrd,kgd->grqk", queries, k, preferred_element_type=jnp.float32)
        last_key = jnp.minimum(kv_lens[slot] - counts[slot] + offset, kv_lens[slot] - 1)
        visible = jnp.arange(context) <= jnp.maximum(last_key, 0)[:, None]
        p = jax.nn.softmax(jnp.where(visible, scores * width**-0.5, -jnp.inf), axis=-1)
        return jnp.einsum("grqk,kgd->qgrd", p.astype(v.dtype), v).reshape(BLOCK, heads, width)

    by_block = lax.map(attend, jnp.arange(tokens // BLOCK + slots))

    token = jnp.arange(tokens)
    slot = jnp.minimum(jnp.sum(ends[1:] <= token[:, None], axis=1), slots - 1)
    offset = token - start[slot]
    o = by_block[first_block[slot] + offset // BLOCK, offset % BLOCK]
    return jnp.where((offset < counts[slot])[:, None, None], o, 0)


def inputs(key):
    """40 to 52 decodes, then chunks of 384 to 512 tokens until at most 100 tokens are free."""
    lengths = draw_lengths(key, 4096, 64, (40, 52), (384, 512), free=100, context=4096)
    return draw(key, lengths, tokens=4096, heads=64, kv_heads=8, width=128, page=256, pages=16)


def check_inputs(key):
    """5 or 6 decodes, then chunks of 56 to 64 tokens until at most 5 tokens are free."""
    lengths = draw_lengths(key, 256, 12, (5, 6), (56, 64), free=5, context=256)
    return draw(key, lengths, tokens=256, heads=64, kv_heads=8, width=128, page=32, pages=8)


def draw(key, lengths, tokens, heads, kv_heads, width, page, pages):
    kv_lens, counts = lengths
    k_q, k_kv, k_table = jax.random.split(key, 3)
    slots = kv_lens.shape[0]
    used, spare = slots * pages, slots * pages // 10
    order = jax.random.permutation(k_table, jnp.arange(used + spare, dtype=jnp.int32))
    unused = jnp.arange(pages) * page >= kv_lens[:, None]
    kv_pages = normal(k_kv, (used + spare, page, 2 * kv_heads, width))
    return (
        normal(k_q, (tokens, heads, width), 2.0),
        kv_pages.at[order[-1]].set(100.0),
        kv_lens,
        jnp.where(unused, order[-1], order[:used].reshape(slots, pages)),
        jnp.pad(jnp.where(counts > 0, jnp.cumsum(counts), tokens), (1, 0)).astype(jnp.int32),
    )


def draw_lengths(key, tokens, slots, decodes, chunk, free, context):
    """Context and query counts of every slot: decodes first, then chunks, then empty slots."""
    k_decodes, k_chunk, k_free, k_context = jax.random.split(jax.random.fold_in(key, 101), 4)
    decoding = jnp.arange(slots) < jax.random.randint(k_decodes, (), decodes[0], decodes[1] + 1)
    chunks = jax.random.randint(k_chunk, (slots,), chunk[0], chunk[1] + 1, jnp.int32)
    counts = jnp.where(decoding, 1, chunks)
    budget = tokens - jax.random.randint(k_free, (), 0, free + 1)
    counts = jnp.clip(budget - (jnp.cumsum(counts) - counts), 0, counts)
    before = jax.random.randint(k_context, (slots,), 0, context, jnp.int32)
    before = jnp.where(decoding, before, before % (context - chunk[1] + 1))
    return jnp.where(counts > 0, before + counts, 0), counts


def normal(key, shape, std=1.0):
    return (std * jax.random.normal(key, shape)).astype(jnp.bfloat16)
