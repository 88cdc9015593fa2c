"""Ragged paged attention for 7p: one kernel for decodes and one for prefill chunks.

Both walk a work list of (slot, query block) items and fetch queries and pages by DMA, one block of
pages ahead. A decode's block is one token; a chunk's is `block_q` tokens, causal, so its pages end
at its last position. Per key/value group, (tokens * query heads, D) is one tall block of queries.
Keys and values of a group share 32-bit words in a page (key low, value high): one strided load
yields both. Results go to the tokens' own rows by DMA; the second kernel writes into the first
one's output.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

TUNABLES = {"block_q": (128, 64), "block_pages": (32, 16), "decode_pages": (32, 16, 64)}


def kernel(
    q,
    kv_pages,
    kv_lens,
    page_indices,
    cu_q_lens,
    num_seqs=None,
    block_q=128,
    block_pages=32,
    decode_pages=32,
):
    """q: (T, Hq, D); kv_pages: (P, page, 2 Hkv, D); kv_lens: (slots,); page_indices: (slots, n).

    cu_q_lens: (slots + 1,); slots without context are not active. Returns (T, Hq, D).
    """
    tokens, heads, width = q.shape
    slots = kv_lens.shape[0]
    groups = kv_pages.shape[2] // 2
    active = kv_lens > 0 if num_seqs is None else jnp.arange(slots) < num_seqs
    counts = jnp.where(active, cu_q_lens[1:] - cu_q_lens[:-1], 0)

    by_group = q.reshape(tokens, groups, heads // groups, width).transpose(1, 0, 2, 3)
    words = kv_pages.reshape(kv_pages.shape[0], -1, width)
    out = jnp.zeros_like(by_group)
    for wanted, block, pages in (
        (counts == 1, 1, decode_pages),
        (counts > 1, min(block_q, tokens), block_pages),
    ):
        items = _work_list(jnp.where(wanted, counts, 0), block, tokens)
        scalars = (*items, kv_lens, page_indices, cu_q_lens, counts)
        out = _call(scalars, by_group, words, out, block, min(pages, page_indices.shape[1]))
    return out.transpose(1, 0, 2, 3).reshape(tokens, heads, width)


def _work_list(counts, block, tokens):
    """Number of items (1,), slot and query offset of each; at most tokens / block + slots."""
    blocks = (counts + block - 1) // block
    last = jnp.cumsum(blocks)
    item = jnp.arange(tokens // block + counts.shape[0] if block > 1 else counts.shape[0])
    slot = jnp.minimum(jnp.sum(last <= item[:, None], axis=1), counts.shape[0] - 1)
    offset = (item - (last - blocks)[slot]) * block
    return last[-1:].astype(jnp.int32), slot.astype(jnp.int32), offset.astype(jnp.int32)


def _call(scalars, q, kv, out, block, pages):
    groups, _, per_group, width = q.shape
    rows = kv.shape[1]
    buffers = [
        pltpu.VMEM((groups, block, per_group, width), q.dtype),
        pltpu.VMEM((2, pages, rows, width), kv.dtype),
        pltpu.VMEM((groups, block * per_group, 1), jnp.float32),
        pltpu.VMEM((groups, block * per_group, 1), jnp.float32),
        pltpu.VMEM((groups, block * per_group, width), jnp.float32),
        pltpu.SemaphoreType.DMA((2,)),
        pltpu.SemaphoreType.DMA,
    ]
    in_hbm = pl.BlockSpec(memory_space=pl.ANY)
    return pl.pallas_call(
        functools.partial(_attend, page=rows // (2 * groups)),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=len(scalars),
            grid=(scalars[1].shape[0],),
            in_specs=[in_hbm, in_hbm, in_hbm],
            out_specs=in_hbm,
            scratch_shapes=buffers,
        ),
        out_shape=jax.ShapeDtypeStruct(out.shape, out.dtype),
        name="decode" if block == 1 else "prefill",
        input_output_aliases={len(scalars) + 2: 0},
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("arbitrary",), vmem_limit_bytes=100 << 20
        ),
    )(*scalars, q, kv, out)


def _attend(
    items_ref,
    slot_ref,
    offset_ref,
    lens_ref,
    table_ref,
    starts_ref,
    counts_ref,
    q_hbm,
    kv_hbm,
    _,
    o_hbm,
    q_ref,
    kv_ref,
    top_ref,
    total_ref,
    acc_ref,
    page_semaphores,
    token_semaphore,
    *,
    page,
):
    item = pl.program_id(0)
    groups, block, per_group, width = q_ref.shape
    pages = kv_ref.shape[1]
    positions = pages * page
    slot, offset = slot_ref[item], offset_ref[item]
    valid = jnp.minimum(counts_ref[slot] - offset, block)
    first_token = starts_ref[slot] + offset
    shift = jnp.maximum(first_token + block - q_hbm.shape[1], 0)
    first_position = lens_ref[slot] - counts_ref[slot] + offset
    blocks = pl.cdiv(first_position + valid, positions)

    def fetch(j, turn):
        def one_page(i, _):
            source = kv_hbm.at[table_ref[slot, j * pages + i]]
            pltpu.make_async_copy(source, kv_ref.at[turn, i], page_semaphores.at[turn]).start()
            return 0

        lax.fori_loop(0, pages, one_page, 0, unroll=8)

    def wait(turn):
        whole = kv_hbm.at[pl.ds(0, pages)]
        pltpu.make_async_copy(whole, kv_ref.at[turn], page_semaphores.at[turn]).wait()

    def one_group(g, j, turn):
        pairs = kv_ref.at[turn].reshape(2 * groups * positions, width).bitcast(jnp.uint32)
        pairs = pairs[pl.ds(g, positions, stride=groups), :]
        k, v = (
            lax.bitcast_convert_type(word, jnp.float32).astype(kv_ref.dtype)
            for word in (pairs << 16, pairs & jnp.uint32(0xFFFF0000))
        )
        q = q_ref[g].reshape(block * per_group, width)
        s = lax.dot_general(q, k, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32)
        token = lax.div(lax.broadcasted_iota(jnp.int32, s.shape, 0), per_group) - shift
        position = j * positions + lax.broadcasted_iota(jnp.int32, s.shape, 1)
        s = jnp.where(position <= first_position + token, s * width**-0.5, -1e30)
        top = top_ref[g]
        new_top = jnp.maximum(top, jnp.max(s, axis=1, keepdims=True))
        p = jnp.exp(s - new_top)
        shrink = jnp.exp(top - new_top)
        top_ref[g] = new_top
        total_ref[g] = shrink * total_ref[g] + jnp.sum(p, axis=1, keepdims=True)
        values = jnp.dot(p.astype(v.dtype), v, preferred_element_type=jnp.float32)
        acc_ref[g] = shrink * acc_ref[g] + values

    def one_block(j, _):
        turn = lax.rem(j, 2)

        @pl.when(j + 1 < blocks)
        def _ahead():
            fetch(j + 1, 1 - turn)

        wait(turn)
        for g in range(groups):
            one_group(g, j, turn)
        return 0

    def copy_token(t):
        source = q_ref.at[:, pl.ds(shift + t, 1)]
        target = o_hbm.at[:, pl.ds(first_token + t, 1)]
        return pltpu.make_async_copy(source, target, token_semaphore)

    @pl.when(item < items_ref[0])
    def _item():
        fetch(0, 0)
        queries = q_hbm.at[:, pl.ds(first_token - shift, block)]
        loading = pltpu.make_async_copy(queries, q_ref, token_semaphore)
        loading.start()
        top_ref[...] = jnp.full_like(top_ref, -1e29)
        total_ref[...] = jnp.zeros_like(total_ref)
        acc_ref[...] = jnp.zeros_like(acc_ref)
        loading.wait()
        lax.fori_loop(0, blocks, one_block, 0)
        q_ref[...] = (acc_ref[...] / total_ref[...]).reshape(q_ref.shape).astype(q_ref.dtype)
        lax.fori_loop(0, valid, lambda t, _: (copy_token(t).start(), 0)[1], 0)
        lax.fori_loop(0, valid, lambda t, _: (copy_token(t).wait(), 0)[1], 0)
