# honest: a class with state of its own
# task: rows
# verdict: accepted

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl


class Norm:
    def __init__(self, epsilon):
        self.epsilon = epsilon

    def __call__(self, x_ref, scale_ref, out_ref):
        x = x_ref[...].astype(jnp.float32)
        y = x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + self.epsilon)
        out_ref[...] = (y * scale_ref[...]).astype(out_ref.dtype)


norm = functools.partial(Norm(1e-5))


def kernel(x, scale):
    d = x.shape[1]
    return pl.pallas_call(
        norm,
        grid=(pl.cdiv(x.shape[0], 32),),
        in_specs=[
            pl.BlockSpec((32, d), lambda i: (i, 0)),
            pl.BlockSpec((1, d), lambda i: (0, 0)),
        ],
        out_specs=pl.BlockSpec((32, x.shape[1]), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct((x.shape[0], x.shape[1]), x.dtype),
    )(x, scale.reshape(1, d))
