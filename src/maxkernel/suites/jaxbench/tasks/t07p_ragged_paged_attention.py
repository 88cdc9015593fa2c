"""7p: ragged paged attention, a Llama-3.1-70B serving step that mixes prefill and decode.

The token buffer holds the query tokens of the active slots back to back; slot i owns tokens
cu_q_lens[i] to cu_q_lens[i+1]. Its context of kv_lens[i] positions ends with those tokens and lies
in the pages page_indices[i] (position p in page p // 16, slot p % 16). In a page, head 2g is the
key and head 2g + 1 the value of group g; query head h reads group h // 8. Token t of n attends to
positions <= kv_lens - n + t. Scores and softmax are float32, p is rounded to bfloat16. Rows of
unused tokens are 0. Full size: 4096 tokens, 64 slots of 256 pages, 64 query and 8 key/value heads
of 128.

Entries of cu_q_lens past the active slots mean nothing. The published edition has one fixed list of
lengths; the hardened one draws them, and the number of active slots, from the key: slots without
context are not active, and num_seqs is left out.
"""

import jax
import jax.numpy as jnp
from jax import lax

EDITION = "hardened"
TOLERANCE = {"atol": 2e-3, "rtol": 1e-2}

BLOCK = 32


def reference(q, kv_pages, kv_lens, page_indices, cu_q_lens, num_seqs=None):
    """q: (T, Hq, D); kv_pages: (P, page, 2 Hkv, D); kv_lens: (slots,); page_indices: (slots, n).

    cu_q_lens: (slots + 1,); num_seqs: (1,), the slots with a context. Returns (T, Hq, D). Works
    through blocks of 32 query tokens; a slot of n tokens has ceil(n / 32) of them.
    """
    tokens, heads, width = q.shape
    slots = kv_lens.shape[0]
    kv_heads = kv_pages.shape[2] // 2
    context = page_indices.shape[1] * kv_pages.shape[1]

    start = cu_q_lens[:-1]
    active = kv_lens > 0 if num_seqs is None else jnp.arange(slots) < num_seqs
    counts = jnp.where(active, cu_q_lens[1:] - start, 0)
    blocks = (counts + BLOCK - 1) // BLOCK
    last_block = jnp.cumsum(blocks)
    first_block = last_block - blocks

    def attend(item):
        slot = jnp.minimum(jnp.sum(last_block <= item), slots - 1)
        offset = (item - first_block[slot]) * BLOCK + jnp.arange(BLOCK)
        rows = jnp.clip(start[slot] + offset, 0, tokens - 1)
        queries = q[rows].reshape(BLOCK, kv_heads, heads // kv_heads, width)
        kv = kv_pages[page_indices[slot]].reshape(context, 2 * kv_heads, width)
        k, v = kv[:, 0::2], kv[:, 1::2]

        scores = jnp.einsum("qgrd,kgd->grqk", queries, k, preferred_element_type=jnp.float32)
        last_key = kv_lens[slot] - counts[slot] + offset
        visible = jnp.arange(context) <= jnp.minimum(last_key, kv_lens[slot] - 1)[:, None]
        scores = jnp.where(visible, scores * width**-0.5, -0.7 * jnp.finfo(jnp.float32).max)
        p = jax.nn.softmax(scores, axis=-1).astype(v.dtype)
        return jnp.einsum("grqk,kgd->qgrd", p, v).reshape(BLOCK, heads, width)

    by_block = lax.map(attend, jnp.arange(tokens // BLOCK + slots))

    token = jnp.arange(tokens)
    slot = jnp.minimum(jnp.sum(cu_q_lens[1:] <= token[:, None], axis=1), slots - 1)
    offset = token - start[slot]
    o = by_block[first_block[slot] + offset // BLOCK, offset % BLOCK]
    return jnp.where((offset < counts[slot])[:, None, None], o, 0)


def inputs(key):
    """48 decodes and 8 prefill chunks in 64 slots."""
    if EDITION == "hardened":
        lengths = draw_lengths
    else:
        decodes = [257 + (73 * i) % 240 * 16 for i in range(48)]
        prefills = [1023, 1535, 2047, 2559, 3071, 3583, 4095, 4095]
        lengths = fixed_lengths([1] * 48 + [512] * 7 + [464], decodes + prefills)
    return draw(key, lengths, 4096, (64, 48, 8), heads=64, kv_heads=8, width=128, pages=256)


def check_inputs(key):
    """6 decodes and 4 prefill chunks in 12 slots."""
    if EDITION == "hardened":
        lengths = draw_lengths
    else:
        contexts = [17, 65, 113, 161, 209, 241, 127, 191, 255, 255]
        lengths = fixed_lengths([1] * 6 + [64, 64, 64, 58], contexts)
    return draw(key, lengths, 256, (12, 6, 4), heads=64, kv_heads=8, width=128, pages=16)


def draw(key, lengths, tokens, slots, heads, kv_heads, width, pages, page=16):
    """`slots` counts all slots, decoding ones and prefilling ones."""
    total, decodes, prefills = slots
    k_q, k_kv, k_table = jax.random.split(key, 3)
    kv_lens, counts = lengths(k_table, tokens, decodes, prefills, page, pages)
    ends = jnp.where(counts > 0, jnp.cumsum(counts), tokens)
    ends = jnp.pad(ends, (0, total - decodes - prefills), constant_values=tokens)
    table = jax.random.permutation(k_table, jnp.arange(total * pages, dtype=jnp.int32))
    made = (
        normal(k_q, (tokens, heads, width)),
        normal(k_kv, (total * pages, page, 2 * kv_heads, width)),
        jnp.pad(kv_lens, (0, total - decodes - prefills)),
        table.reshape(total, pages),
        jnp.pad(ends, (1, 0)).astype(jnp.int32),
    )
    return made if EDITION == "hardened" else (*made, jnp.array([decodes + prefills], jnp.int32))


def draw_lengths(key, tokens, decodes, prefills, page, pages):
    """Contexts and query counts; among the decodes 1, a whole number of pages and a full context.

    Chunks are at least half the size at which the token buffer would be full; the last one may be
    missing.
    """
    k_decode, k_whole, k_chunk, k_before, k_last = jax.random.split(key, 5)
    context = page * pages
    decode_lens = jax.random.randint(k_decode, (decodes,), 1, context + 1, jnp.int32)
    whole = page * jax.random.randint(k_whole, (), 1, pages, jnp.int32)
    decode_lens = decode_lens.at[0].set(1).at[1].set(whole).at[2].set(context)
    longest = (tokens - decodes) // prefills
    chunks = jax.random.randint(k_chunk, (prefills,), longest // 2, longest + 1, jnp.int32)
    chunks = chunks.at[-1].multiply(jax.random.bernoulli(k_last).astype(jnp.int32))
    before = jax.random.randint(k_before, (prefills,), 0, context - longest + 1, jnp.int32)
    before = jnp.where(chunks > 0, before, 0)
    counts = jnp.concatenate([jnp.ones(decodes, jnp.int32), chunks])
    return jnp.concatenate([decode_lens, before + chunks]), counts


def fixed_lengths(counts, kv_lens):
    """The given lengths, whatever the key."""
    return lambda *_: (jnp.array(kv_lens, jnp.int32), jnp.array(counts, jnp.int32))


def normal(key, shape, std=1.0):
    """Normal draws; the hardened edition rounds float32 draws, bfloat16 ones take few values."""
    if EDITION == "hardened":
        return (std * jax.random.normal(key, shape)).astype(jnp.bfloat16)
    return jax.random.normal(key, shape, jnp.bfloat16) * std
