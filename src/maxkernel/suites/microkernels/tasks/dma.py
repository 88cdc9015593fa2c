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

TOTAL = 144 << 20
"""Bytes of the array in HBM: more than any VMEM, or the compiler would keep the array there."""

PLACES = TOTAL // (4 * PARAMETERS["columns"] * PARAMETERS["rows"] * PARAMETERS["flight"])
WHOLE = (PLACES * PARAMETERS["rows"] * PARAMETERS["flight"], 1, PARAMETERS["columns"])
NONE = (1, 1, PARAMETERS["columns"])


def inputs(key):
    value = jax.random.normal(key, (), jnp.float32)
    return (jnp.full(NONE if PARAMETERS["write"] else WHOLE, value),)


def reference(x):
    """x: (N, 1, C) f32 in HBM. Returns what was written there, and the last row that was copied."""
    block = (PARAMETERS["flight"], PARAMETERS["rows"], 1, PARAMETERS["used"])
    return pl.pallas_call(
        _copy,
        in_specs=[pl.BlockSpec(memory_space=pltpu.HBM)],
        out_specs=[pl.BlockSpec(memory_space=pltpu.HBM), pl.BlockSpec(memory_space=pltpu.VMEM)],
        out_shape=[
            jax.ShapeDtypeStruct(WHOLE if PARAMETERS["write"] else NONE, x.dtype),
            jax.ShapeDtypeStruct((1, 128), x.dtype),
        ],
        scratch_shapes=[
            pltpu.VMEM(block, x.dtype),
            pltpu.SemaphoreType.DMA((PARAMETERS["flight"],)),
        ],
    )(x)


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
