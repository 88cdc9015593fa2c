"""Flash attention for 1p: causal, online softmax, a head's keys and values resident in VMEM.

The grid walks heads and query blocks. A query block loops over the key blocks left of the diagonal,
then takes the square on it strip by strip, each strip as far as its own diagonal. Products are
bfloat16 with float32 accumulation; the running maximum is float32. The values are widened by
columns of ones, so that the product with the weights also yields their sum.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

TUNABLES = {"block": (1024, 2048, 512), "strip": (512, 256)}


def kernel(q, k, v, block=1024, strip=512):
    """q, k, v: (B, H, S, D). Returns (B, H, S, D)."""
    batch, heads, length, width = q.shape
    block = min(block, length)
    flat = (batch * heads, length, width)
    rows = pl.BlockSpec((1, block, width), lambda h, i: (h, i, 0))
    whole = pl.BlockSpec((1, length, width), lambda h, i: (h, 0, 0))
    out = pl.pallas_call(
        functools.partial(_attend, strip=min(strip, block), scale=width**-0.5),
        grid=(batch * heads, length // block),
        in_specs=[rows, whole, whole],
        out_specs=rows,
        out_shape=jax.ShapeDtypeStruct(flat, q.dtype),
        scratch_shapes=[pltpu.VMEM((length, 2 * width), v.dtype)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "arbitrary"), vmem_limit_bytes=100 << 20
        ),
    )(q.reshape(flat), k.reshape(flat), v.reshape(flat))
    return out.reshape(q.shape)


def _attend(q_ref, k_ref, v_ref, o_ref, wide_ref, *, strip, scale):
    block, width = q_ref.shape[1:]
    i = pl.program_id(1)

    @pl.when(i == 0)
    def _widen():
        wide_ref[:, :width] = v_ref[0]
        wide_ref[:, width:] = jnp.ones(v_ref.shape[1:], v_ref.dtype)

    q = (q_ref[0].astype(jnp.float32) * scale).astype(q_ref.dtype)

    def left(j, carry):
        at = pl.ds(pl.multiple_of(j * block, block), block)
        return _update(*carry, _scores(q, k_ref[0, at]), wide_ref[at])

    top = jnp.full((block, 1), -1e30, jnp.float32)
    top, acc = lax.fori_loop(0, i, left, (top, jnp.zeros((block, 2 * width), jnp.float32)))

    for r in range(0, block, strip):
        rows, size = slice(r, r + strip), r + strip
        at = pl.ds(pl.multiple_of(i * block, block), size)
        s = _scores(q[rows], k_ref[0, at])
        row = r + lax.broadcasted_iota(jnp.int32, s.shape, 0)
        s = jnp.where(lax.broadcasted_iota(jnp.int32, s.shape, 1) <= row, s, -1e30)
        _, o = _update(top[rows], acc[rows], s, wide_ref[at])
        o_ref[0, rows] = (o[:, :width] / o[:, width:]).astype(o_ref.dtype)


def _scores(q, k):
    return lax.dot_general(q, k, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32)


def _update(top, acc, s, values):
    """One step of the online softmax: the running maximum, and weighted values with their sum."""
    new_top = jnp.maximum(top, jnp.max(s, axis=1, keepdims=True))
    p = jnp.exp(s - new_top).astype(values.dtype)
    product = jnp.dot(p, values, preferred_element_type=jnp.float32)
    return new_top, jnp.exp(top - new_top) * acc + product
