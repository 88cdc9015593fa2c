# honest: a slope for either sign
# task: leaky
# verdict: accepted

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def body(x_ref, out_ref):
    x = x_ref[...]
    out_ref[...] = jnp.where(x > 0, 3 * x, 0.3 * x)


def kernel(x):
    block = pl.BlockSpec((32, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        body,
        grid=(x.shape[0] // 32,),
        in_specs=[block],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
    )(x)
