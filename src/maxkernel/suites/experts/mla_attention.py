"""Multi-head latent attention for 3p: XLA's projections around a flash attention kernel.

A head's keys are put together in VMEM once, from its own columns and the rotary ones that serve all
heads. Key blocks left of the diagonal, then the square on it strip by strip; values widened by
columns of ones, so that the product with the weights also yields their sum.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

TUNABLES = {"block": (1024, 512, 2048), "strip": (512, 256)}

NOPE, ROPE, VALUE, THETA = 128, 64, 128, 10000.0


def kernel(x, w_q_down, w_q_up, w_kv_down, w_k_up, w_v_up, w_out, block=1024, strip=512):
    """x: (B, S, E). Returns (B, S, E).

    Weights: (E, Rq), (Rq, H*192), (E, Rkv+64), (Rkv, H*128), (Rkv, H*128), (H*128, E).
    """
    batch, length, _ = x.shape
    heads, rank = w_k_up.shape[1] // NOPE, w_k_up.shape[0]
    q = _heads_first(x @ w_q_down @ w_q_up, heads)
    q = jnp.concatenate([q[..., :NOPE], _rotate(q[..., NOPE:])], axis=-1)
    latent = x @ w_kv_down
    k_rope = _rotate(latent[..., rank:])
    k_nope = _heads_first(latent[..., :rank] @ w_k_up, heads)
    v = _heads_first(latent[..., :rank] @ w_v_up, heads)
    o = attention(q, k_nope, k_rope, v, (NOPE + ROPE) ** -0.5, block, strip)
    return o.transpose(0, 2, 1, 3).reshape(batch, length, heads * VALUE) @ w_out


def _heads_first(t, heads):
    """(B, S, H * D) to (B, H, S, D)."""
    return t.reshape(*t.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def _rotate(t):
    """Rotary position, halves paired, over the second last axis."""
    half = t.shape[-1] // 2
    frequency = THETA ** (-jnp.arange(half, dtype=jnp.float32) / half)
    angle = jnp.arange(t.shape[-2], dtype=jnp.float32)[:, None] * frequency
    cos, sin = jnp.cos(angle).astype(t.dtype), jnp.sin(angle).astype(t.dtype)
    a, b = t[..., :half], t[..., half:]
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


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
