"""Copies between HBM and VMEM: `flight` at once, all waited for, `rounds` times over.

A copy is a window of `used` columns of `rows` rows. Rows are untiled, so that a window narrower
than the array consists of one run of `4 * used` bytes a row.
"""

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

PARAMETERS = {"rows": 64, "columns": 1024, "used": 1024, "flight": 4, "rounds": 256, "write": 0}

PLACES = 4


def inputs(key):
    shape = (PLACES * PARAMETERS["rows"] * PARAMETERS["flight"], 1, PARAMETERS["columns"])
    return (jax.random.normal(key, shape, jnp.float32),)


def reference(x):
    """x: (N, 1, C) f32 in HBM. Returns an array of the same shape, written where `write` is set."""
    block = (PARAMETERS["flight"], PARAMETERS["rows"], 1, PARAMETERS["used"])
    out, _ = pl.pallas_call(
        _copy,
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        out_specs=[pl.BlockSpec(memory_space=pl.ANY), pl.BlockSpec(memory_space=pltpu.VMEM)],
        out_shape=[
            jax.ShapeDtypeStruct(x.shape, x.dtype),
            jax.ShapeDtypeStruct((1, 128), x.dtype),
        ],
        scratch_shapes=[
            pltpu.VMEM(block, x.dtype),
            pltpu.SemaphoreType.DMA((PARAMETERS["flight"],)),
        ],
    )(x)
    return out


def _copy(x_ref, o_ref, last_ref, buffer, semaphores):
    rows, used = PARAMETERS["rows"], PARAMETERS["used"]
    flight, write = PARAMETERS["flight"], PARAMETERS["write"]
    buffer[...] = jnp.zeros_like(buffer)

    def copy(step, slot):
        first = (lax.rem(step, PLACES) * flight + slot) * rows
        outside = (o_ref if write else x_ref).at[pl.ds(first, rows), :, pl.ds(0, used)]
        inside = buffer.at[slot]
        ends = (inside, outside) if write else (outside, inside)
        return pltpu.make_async_copy(*ends, semaphores.at[slot])

    @pl.loop(0, PARAMETERS["rounds"])
    def _(step):
        for slot in range(flight):
            copy(step, slot).start()
        for slot in range(flight):
            copy(step, slot).wait()

    last_ref[...] = buffer[0, 0, :, :128]
