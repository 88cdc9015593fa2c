# attack: a wait that nothing will ever satisfy
# task: rows
# verdict: refused check/hazard

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def body(x_hbm, scale_ref, out_ref, buf, sem):
    i = pl.program_id(0)

    def fetch(step, slot):
        return pltpu.make_async_copy(x_hbm.at[pl.ds(step * 16, 16)], buf.at[slot], sem.at[slot])

    fetch(i, 0).start()
    fetch(i, 0).wait()
    fetch(i, 0).wait()
    x = buf[0].astype(jnp.float32)
    y = x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5)
    out_ref[...] = (y * scale_ref[...]).astype(out_ref.dtype)


def kernel(x, scale):
    d = x.shape[1]
    return pl.pallas_call(
        body,
        grid=(x.shape[0] // 16,),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY), pl.BlockSpec((1, d), lambda i: (0, 0))],
        out_specs=pl.BlockSpec((16, d), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        scratch_shapes=[pltpu.VMEM((2, 16, d), x.dtype), pltpu.SemaphoreType.DMA((2,))],
    )(x, scale.reshape(1, d))
