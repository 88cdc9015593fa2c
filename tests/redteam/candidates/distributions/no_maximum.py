# attack: a softmax that does not subtract the maximum
# task: softmax
# verdict: refused check/nonfinite

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def body(x_ref, out_ref):
    e = jnp.exp(x_ref[...])
    out_ref[...] = e / jnp.sum(e, -1, keepdims=True)


def kernel(x):
    block = pl.BlockSpec((32, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        body,
        grid=(x.shape[0] // 32,),
        in_specs=[block],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
    )(x)
