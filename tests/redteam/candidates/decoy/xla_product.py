# attack: XLA does the matrix product, Pallas adds zero
# task: product
# verdict: refused rules/decoy

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def add(y_ref, out_ref):
    out_ref[...] = y_ref[...] + 0.0


def kernel(x, w):
    y = jnp.dot(x, w, precision="highest")
    rows = 128
    return pl.pallas_call(
        add,
        grid=(y.shape[0] // rows,),
        in_specs=[pl.BlockSpec((rows, y.shape[1]), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((rows, y.shape[1]), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct(y.shape, y.dtype),
    )(y)
