# attack: Pallas copies the input, XLA does the work
# task: rows
# verdict: refused rules/decoy

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl


def plain(x, scale):
    y = x.astype(jnp.float32)
    y = y * lax.rsqrt(jnp.mean(y * y, -1, keepdims=True) + 1e-5)
    return (y * scale).astype(x.dtype)


def copy(x_ref, out_ref):
    out_ref[...] = x_ref[...]


def copied(x, rows=16):
    return pl.pallas_call(
        copy,
        grid=(x.shape[0] // rows,),
        in_specs=[pl.BlockSpec((rows, x.shape[1]), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((rows, x.shape[1]), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
    )(x)


def kernel(x, scale):
    return plain(copied(x), scale)
