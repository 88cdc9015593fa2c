# honest: a loop over columns, unrolled as often as the shape asks
# task: rows
# verdict: accepted

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl


def body(x_ref, scale_ref, out_ref):
    d = x_ref.shape[1]
    total = jnp.zeros((x_ref.shape[0], 1), jnp.float32)
    for start in range(0, d, 128):
        part = x_ref[:, start : start + 128].astype(jnp.float32)
        total += jnp.sum(part * part, -1, keepdims=True)
    y = x_ref[...].astype(jnp.float32) * lax.rsqrt(total / d + 1e-5)
    out_ref[...] = (y * scale_ref[...]).astype(out_ref.dtype)


def kernel(x, scale):
    d = x.shape[1]
    return pl.pallas_call(
        body,
        grid=(pl.cdiv(x.shape[0], 32),),
        in_specs=[
            pl.BlockSpec((32, d), lambda i: (i, 0)),
            pl.BlockSpec((1, d), lambda i: (0, 0)),
        ],
        out_specs=pl.BlockSpec((32, x.shape[1]), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct((x.shape[0], x.shape[1]), x.dtype),
    )(x, scale.reshape(1, d))
