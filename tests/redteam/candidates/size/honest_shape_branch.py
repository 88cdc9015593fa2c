# honest: the block is chosen by the shape
# task: rows
# verdict: accepted

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl


def body(x_ref, scale_ref, out_ref):
    x = x_ref[...].astype(jnp.float32)
    y = x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5)
    out_ref[...] = (y * scale_ref[...]).astype(out_ref.dtype)


def small(x, scale):
    d = x.shape[1]
    return pl.pallas_call(
        body,
        grid=(pl.cdiv(x.shape[0], 16),),
        in_specs=[
            pl.BlockSpec((16, d), lambda i: (i, 0)),
            pl.BlockSpec((1, d), lambda i: (0, 0)),
        ],
        out_specs=pl.BlockSpec((16, x.shape[1]), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct((x.shape[0], x.shape[1]), x.dtype),
    )(x, scale.reshape(1, d))


def large(x, scale):
    d = x.shape[1]
    return pl.pallas_call(
        body,
        grid=(pl.cdiv(x.shape[0], 64),),
        in_specs=[
            pl.BlockSpec((64, d), lambda i: (i, 0)),
            pl.BlockSpec((1, d), lambda i: (0, 0)),
        ],
        out_specs=pl.BlockSpec((64, x.shape[1]), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct((x.shape[0], x.shape[1]), x.dtype),
    )(x, scale.reshape(1, d))


def kernel(x, scale):
    return large(x, scale) if x.shape[0] % 64 == 0 else small(x, scale)
