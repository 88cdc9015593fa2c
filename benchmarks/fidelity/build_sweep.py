"""The matmul of jax's Pallas TPU documentation: bf16, three block sizes, f32 accumulator."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from benchmarks.fidelity.rows import Row
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def build(row: Row):
    """The function and its inputs' shapes."""
    size = int(row.fields["size"])
    inputs = [jax.ShapeDtypeStruct((size, size), jnp.bfloat16)] * 2
    if row.fields["blocks"] == "xla":
        return jnp.dot, inputs
    rows, columns, depth = (int(edge) for edge in row.fields["blocks"].split("/"))
    steps = size // depth

    def kernel(x, y, out, total):
        @pl.when(pl.program_id(2) == 0)
        def _():
            total[...] = jnp.zeros_like(total)

        total[...] += jnp.dot(x[...], y[...], preferred_element_type=jnp.float32)

        @pl.when(pl.program_id(2) == steps - 1)
        def _():
            out[...] = total[...].astype(out.dtype)

    def matmul(x, y):
        return pl.pallas_call(
            kernel,
            grid_spec=pltpu.PrefetchScalarGridSpec(
                num_scalar_prefetch=0,
                grid=(size // rows, size // columns, steps),
                in_specs=[
                    pl.BlockSpec((rows, depth), lambda i, j, k: (i, k)),
                    pl.BlockSpec((depth, columns), lambda i, j, k: (k, j)),
                ],
                out_specs=pl.BlockSpec((rows, columns), lambda i, j, k: (i, j)),
                scratch_shapes=[pltpu.VMEM((rows, columns), jnp.float32)],
            ),
            out_shape=jax.ShapeDtypeStruct((size, size), x.dtype),
            compiler_params=pltpu.CompilerParams(
                dimension_semantics=("parallel", "parallel", "arbitrary")
            ),
        )(x, y)

    return matmul, inputs
