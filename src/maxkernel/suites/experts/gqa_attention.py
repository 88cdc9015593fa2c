"""Grouped-query flash attention for 2p: the query heads of a group are rows of one product.

All heads of a group read the same keys, so a block of positions times heads is one tall block of
queries: (positions, heads, D) and (positions * heads, D) are the same bytes. Keys and values of a
group stay in VMEM. A query block walks the keys left of its diagonal in steps of halving size and
masks only the square on it. The values are widened by columns of ones, so that the product with the
weights also yields their sum.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

TUNABLES = {"block_q": (128, 64, 256), "block_k": (1024, 512, 2048)}


def kernel(q, k, v, block_q=128, block_k=1024):
    """q: (B, S, Hq, D); k, v: (B, S, Hkv, D). Returns (B, S, Hq, D)."""
    batch, length, heads, width = q.shape
    kv_heads = k.shape[2]
    group = heads // kv_heads
    block_q, block_k = min(block_q, length), min(block_k, length)
    k, v = k.transpose(0, 2, 1, 3), v.transpose(0, 2, 1, 3)
    rows = pl.BlockSpec((1, block_q, group, width), lambda b, g, i: (b, i, g, 0))
    whole = pl.BlockSpec((1, 1, length, width), lambda b, g, i: (b, g, 0, 0))
    return pl.pallas_call(
        functools.partial(_attend, block_k=block_k, scale=width**-0.5),
        grid=(batch, kv_heads, length // block_q),
        in_specs=[rows, whole, whole],
        out_specs=rows,
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        scratch_shapes=[pltpu.VMEM((length, 2 * width), v.dtype)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary"), vmem_limit_bytes=100 << 20
        ),
    )(q, k, v)


def _attend(q_ref, k_ref, v_ref, o_ref, wide_ref, *, block_k, scale):
    block_q, group, width = q_ref.shape[1:]
    tall = block_q * group
    i = pl.program_id(2)

    @pl.when(i == 0)
    def _widen():
        wide_ref[:, :width] = v_ref[0, 0]
        wide_ref[:, width:] = jnp.ones(v_ref.shape[2:], v_ref.dtype)

    q = (q_ref[0].reshape(tall, width).astype(jnp.float32) * scale).astype(q_ref.dtype)

    def visit(start, size, carry):
        at = pl.ds(pl.multiple_of(start, size), size)
        return _update(*carry, _scores(q, k_ref[0, 0, at]), wide_ref[at])

    diagonal, done = i * block_q, 0
    carry = jnp.full((tall, 1), -1e30, jnp.float32), jnp.zeros((tall, 2 * width), jnp.float32)
    size = block_k
    while size >= block_q:
        steps = lax.div(diagonal - done, size)

        def step(j, carry, done=done, size=size):
            return visit(done + j * size, size, carry)

        carry = lax.fori_loop(0, steps, step, carry)
        done, size = done + steps * size, size // 2

    at = pl.ds(pl.multiple_of(diagonal, block_q), block_q)
    s = _scores(q, k_ref[0, 0, at])
    row = lax.div(lax.broadcasted_iota(jnp.int32, s.shape, 0), group)
    s = jnp.where(lax.broadcasted_iota(jnp.int32, s.shape, 1) <= row, s, -1e30)
    _, o = _update(*carry, s, wide_ref[at])
    o = (o[:, :width] / o[:, width:]).astype(o_ref.dtype)
    o_ref[0] = o.reshape(block_q, group, width)


def _scores(q, k):
    return lax.dot_general(q, k, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32)


def _update(top, acc, s, values):
    """One step of the online softmax: the running maximum, and weighted values with their sum."""
    new_top = jnp.maximum(top, jnp.max(s, axis=1, keepdims=True))
    p = jnp.exp(s - new_top).astype(values.dtype)
    product = jnp.dot(p, values, preferred_element_type=jnp.float32)
    return new_top, jnp.exp(top - new_top) * acc + product
