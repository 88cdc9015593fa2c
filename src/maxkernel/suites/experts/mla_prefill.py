"""Flash attention over latent keys for w08: 192-wide keys of which 64 columns serve all heads.

A head's keys are put together in VMEM once, from its own columns and the shared ones. Otherwise as
for 1p: key blocks left of the diagonal, then the square on it strip by strip; values widened by
columns of ones, so that the product with the weights also yields their sum.
"""

import functools
import math

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

TUNABLES = {"block": (1024, 512, 2048), "strip": (512, 256)}

SCALE = 192**-0.5 * (0.1 * math.log(40.0) + 1.0) ** 2


def kernel(q, k_nope, k_rope, v, block=1024, strip=512):
    """q: (B, S, H, 192); k_nope, v: (B, S, H, 128); k_rope: (B, S, 64). Returns (B, S, H, 128)."""
    q, k_nope, v = (t.transpose(0, 2, 1, 3) for t in (q, k_nope, v))
    return attention(q, k_nope, k_rope, v, SCALE, block, strip).transpose(0, 2, 1, 3)


def attention(q, k_nope, k_rope, v, scale, block, strip):
    """q: (B, H, S, 192); k_nope, v: (B, H, S, 128); k_rope: (B, S, 64). Returns (B, H, S, 128)."""
    batch, heads, length, q_width = q.shape
    nope, rope, width = k_nope.shape[3], k_rope.shape[2], v.shape[3]
    block = min(block, length)
    return pl.pallas_call(
        functools.partial(_attend, strip=min(strip, block), scale=scale),
        grid=(batch, heads, length // block),
        in_specs=[
            pl.BlockSpec((1, 1, block, q_width), lambda b, h, i: (b, h, i, 0)),
            pl.BlockSpec((1, 1, length, nope), lambda b, h, i: (b, h, 0, 0)),
            pl.BlockSpec((1, length, rope), lambda b, h, i: (b, 0, 0)),
            pl.BlockSpec((1, 1, length, width), lambda b, h, i: (b, h, 0, 0)),
        ],
        out_specs=pl.BlockSpec((1, 1, block, width), lambda b, h, i: (b, h, i, 0)),
        out_shape=jax.ShapeDtypeStruct(v.shape, v.dtype),
        scratch_shapes=[
            pltpu.VMEM((length, q_width), k_nope.dtype),
            pltpu.VMEM((length, 2 * width), v.dtype),
        ],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "arbitrary", "arbitrary"), vmem_limit_bytes=100 << 20
        ),
    )(q, k_nope, k_rope, v)


def _attend(q_ref, nope_ref, rope_ref, v_ref, o_ref, k_ref, wide_ref, *, strip, scale):
    block, width = o_ref.shape[2:]
    i = pl.program_id(2)

    @pl.when(i == 0)
    def _gather():
        k_ref[:, : nope_ref.shape[3]] = nope_ref[0, 0]
        k_ref[:, nope_ref.shape[3] :] = rope_ref[0]
        wide_ref[:, :width] = v_ref[0, 0]
        wide_ref[:, width:] = jnp.ones(v_ref.shape[2:], v_ref.dtype)

    q = (q_ref[0, 0].astype(jnp.float32) * scale).astype(q_ref.dtype)

    def left(j, carry):
        at = pl.ds(pl.multiple_of(j * block, block), block)
        return _update(*carry, _scores(q, k_ref[at]), wide_ref[at])

    top = jnp.full((block, 1), -1e30, jnp.float32)
    top, acc = lax.fori_loop(0, i, left, (top, jnp.zeros((block, 2 * width), jnp.float32)))

    for r in range(0, block, strip):
        rows, size = slice(r, r + strip), r + strip
        at = pl.ds(pl.multiple_of(i * block, block), size)
        s = _scores(q[rows], k_ref[at])
        row = r + lax.broadcasted_iota(jnp.int32, s.shape, 0)
        s = jnp.where(lax.broadcasted_iota(jnp.int32, s.shape, 1) <= row, s, -1e30)
        _, o = _update(top[rows], acc[rows], s, wide_ref[at])
        o_ref[0, 0, rows] = (o[:, :width] / o[:, width:]).astype(o_ref.dtype)


def _scores(q, k):
    return lax.dot_general(q, k, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32)


def _update(top, acc, s, values):
    """One step of the online softmax: the running maximum, and weighted values with their sum."""
    new_top = jnp.maximum(top, jnp.max(s, axis=1, keepdims=True))
    p = jnp.exp(s - new_top).astype(values.dtype)
    product = jnp.dot(p, values, preferred_element_type=jnp.float32)
    return new_top, jnp.exp(top - new_top) * acc + product
