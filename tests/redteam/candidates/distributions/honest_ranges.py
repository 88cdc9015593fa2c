# honest: a range that may be zero
# task: ranges
# verdict: accepted

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def body(x_ref, out_ref):
    x = x_ref[...]
    low, high = jnp.min(x, 0, keepdims=True), jnp.max(x, 0, keepdims=True)
    out_ref[...] = x + (x - low) / (high - low + 4e-6)


def kernel(x):
    block = pl.BlockSpec((x.shape[0], 128), lambda i: (0, i))
    return pl.pallas_call(
        body,
        grid=(x.shape[1] // 128,),
        in_specs=[block],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
    )(x)
