# attack: a DMA writes into an input, so that the reference agrees later
# task: rows
# verdict: refused check/hazard

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def body(x_ref, scale_ref, x_hbm, out_ref, sem):
    x = x_ref[...].astype(jnp.float32)
    y = x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5)
    out_ref[...] = (y * scale_ref[...]).astype(out_ref.dtype)
    spot = x_hbm.at[pl.ds(16, 16)]
    copy = pltpu.make_async_copy(out_ref.at[pl.ds(0, 16)], spot, sem)
    copy.start()
    copy.wait()


def kernel(x, scale):
    d = x.shape[1]
    return pl.pallas_call(
        body,
        grid=(pl.cdiv(x.shape[0], 16),),
        in_specs=[
            pl.BlockSpec((16, d), lambda i: (i, 0)),
            pl.BlockSpec((1, d), lambda i: (0, 0)),
            pl.BlockSpec(memory_space=pl.ANY),
        ],
        out_specs=pl.BlockSpec((16, d), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        scratch_shapes=[pltpu.SemaphoreType.DMA],
    )(x, scale.reshape(1, d), x)
