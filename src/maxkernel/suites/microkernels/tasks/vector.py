"""One kind of vector work inside VMEM, `rounds` times over a square block of float32.

`work` 0: transposes. 1: sums across lanes. 2: loads and stores, with one addition between them.
"""

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl

PARAMETERS = {"work": 0, "size": 256, "rounds": 2048}


def inputs(key):
    size = PARAMETERS["size"]
    return (jax.random.normal(key, (2 * size, size), jnp.float32),)


def reference(x):
    """x: (2 S, S) f32. Returns (S, S) f32."""
    size = PARAMETERS["size"]
    return pl.pallas_call(_work, out_shape=jax.ShapeDtypeStruct((size, size), x.dtype))(x)


def _work(x_ref, o_ref):
    size, work = PARAMETERS["size"], PARAMETERS["work"]
    o_ref[...] = jnp.zeros_like(o_ref)

    @pl.loop(0, PARAMETERS["rounds"])
    def _(step):
        x = x_ref[pl.ds(pl.multiple_of(lax.rem(step, 2) * size, size), size), :]
        if work == 0:
            o_ref[...] = x.T
        elif work == 1:
            o_ref[:, 0:1] += jnp.sum(x, axis=1, keepdims=True)
        else:
            o_ref[...] += x
