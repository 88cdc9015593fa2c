"""Paged decode attention for 6p: pages fetched by DMA one block ahead, all heads in one product.

A page holds every key/value head of its positions, so a block of pages is a tall matrix of
(position, head) rows. Its product with all queries is mostly between heads that do not belong
together; those entries are masked, which is cheaper than separating the heads. Scores are kept
transposed, query heads along lanes, so that the running maximum and sum are one row. The block
after the present one, also of the next sequence, is on its way while this one is used. Blocks are
fetched whole: table entries past a context must name some page.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

TUNABLES = {"block_pages": (32, 16, 64)}


def kernel(q, k_pages, v_pages, kv_lens, page_indices, cu_q_lens=None, block_pages=32):
    """q: (n, Hq, D); pages: (P, page, Hkv, D); kv_lens: (n,); page_indices: (n, pages).

    Returns (n, Hq, D).
    """
    q = q if cu_q_lens is None else q[cu_q_lens[:-1]]
    sequences, heads, width = q.shape
    pool, page, kv_heads, _ = k_pages.shape
    block_pages = min(block_pages, page_indices.shape[1])
    buffer = pltpu.VMEM((2, block_pages, page * kv_heads, width), k_pages.dtype)
    one = pl.BlockSpec((1, heads, width), lambda s, lens, table: (s, 0, 0))
    in_hbm = pl.BlockSpec(memory_space=pl.ANY)
    return pl.pallas_call(
        functools.partial(_attend, page=page, kv_heads=kv_heads),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2,
            grid=(sequences,),
            in_specs=[one, in_hbm, in_hbm],
            out_specs=one,
            scratch_shapes=[
                buffer,
                buffer,
                pltpu.SemaphoreType.DMA((2, 2)),
                pltpu.SMEM((1,), jnp.int32),
            ],
        ),
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("arbitrary",), vmem_limit_bytes=100 << 20
        ),
    )(
        kv_lens,
        page_indices,
        q,
        k_pages.reshape(pool, page * kv_heads, width),
        v_pages.reshape(pool, page * kv_heads, width),
    )


def _attend(
    lens_ref,
    table_ref,
    q_ref,
    k_hbm,
    v_hbm,
    o_ref,
    k_buffer,
    v_buffer,
    semaphores,
    turn_ref,
    *,
    page,
    kv_heads,
):
    sequence = pl.program_id(0)
    heads, width = q_ref.shape[1:]
    block_pages = k_buffer.shape[1]
    positions = block_pages * page

    def fetch(sequence, block, turn):
        def one_page(i, _):
            page = table_ref[sequence, block * block_pages + i]
            for hbm, buffer, n in ((k_hbm, k_buffer, 0), (v_hbm, v_buffer, 1)):
                target = buffer.at[turn, i]
                pltpu.make_async_copy(hbm.at[page], target, semaphores.at[turn, n]).start()
            return 0

        lax.fori_loop(0, block_pages, one_page, 0, unroll=8)

    def wait(turn):
        for hbm, buffer, n in ((k_hbm, k_buffer, 0), (v_hbm, v_buffer, 1)):
            pages = hbm.at[pl.ds(0, block_pages)]
            pltpu.make_async_copy(pages, buffer.at[turn], semaphores.at[turn, n]).wait()

    @pl.when(sequence == 0)
    def _first():
        turn_ref[0] = 0
        fetch(0, 0, 0)

    length = lens_ref[sequence]
    blocks = pl.cdiv(length, positions)
    q = (q_ref[0].astype(jnp.float32) * width**-0.5).astype(q_ref.dtype)
    shape = (positions * kv_heads, heads)
    row, head = (lax.broadcasted_iota(jnp.int32, shape, axis) for axis in (0, 1))
    mine = lax.rem(row, kv_heads) == lax.div(head, heads // kv_heads)
    position = jnp.where(mine, lax.div(row, kv_heads), jnp.iinfo(jnp.int32).max)

    def one_block(block, carry):
        top, total, acc = carry
        turn = turn_ref[0]
        last = block == blocks - 1
        ahead = jnp.where(last, sequence + 1, sequence), jnp.where(last, 0, block + 1)

        @pl.when(ahead[0] < pl.num_programs(0))
        def _prefetch():
            fetch(*ahead, 1 - turn)

        wait(turn)
        turn_ref[0] = 1 - turn
        k, v = (buffer[turn].reshape(shape[0], width) for buffer in (k_buffer, v_buffer))
        s = lax.dot_general(k, q, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32)
        s = jnp.where(position < length - block * positions, s, -1e30)
        new_top = jnp.maximum(top, jnp.max(s, axis=0, keepdims=True))
        p = jnp.exp(s - new_top)
        shrink = jnp.exp(top - new_top)
        values = lax.dot_general(
            v, p.astype(v.dtype), (((0,), (0,)), ((), ())), preferred_element_type=jnp.float32
        )
        return new_top, shrink * total + jnp.sum(p, axis=0, keepdims=True), shrink * acc + values

    start = (
        jnp.full((1, heads), -1e29, jnp.float32),
        jnp.zeros((1, heads), jnp.float32),
        jnp.zeros((width, heads), jnp.float32),
    )
    _, total, acc = lax.fori_loop(0, blocks, one_block, start)
    o_ref[0] = (acc / total).T.astype(o_ref.dtype)
