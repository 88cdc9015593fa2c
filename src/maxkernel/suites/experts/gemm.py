"""Tiled matrix product for 8p: one output block stays in VMEM while the contraction is walked.

Inside a block a loop walks strips of columns, so that the unrolled program stays small.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

TUNABLES = {
    "block_m": (2048, 1024, 512),
    "block_n": (2048, 1024, 4096),
    "block_k": (1024, 512, 2048),
    "strip": (512, 1024, 256),
}


def kernel(a, b, block_m=2048, block_n=2048, block_k=1024, strip=512):
    """a: (M, K); b: (K, N). Returns (M, N)."""
    (m, k), n = a.shape, b.shape[1]
    block_m, block_n, block_k = min(block_m, m), min(block_n, n), min(block_k, k)
    return pl.pallas_call(
        functools.partial(_multiply, strip=min(strip, block_n)),
        grid=(m // block_m, n // block_n, k // block_k),
        in_specs=[
            pl.BlockSpec((block_m, block_k), lambda i, j, s: (i, s)),
            pl.BlockSpec((block_k, block_n), lambda i, j, s: (s, j)),
        ],
        out_specs=pl.BlockSpec((block_m, block_n), lambda i, j, s: (i, j)),
        out_shape=jax.ShapeDtypeStruct((m, n), a.dtype),
        scratch_shapes=[pltpu.VMEM((block_m, block_n), jnp.float32)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary"), vmem_limit_bytes=120 << 20
        ),
    )(a, b)


def _multiply(a_ref, b_ref, o_ref, acc_ref, *, strip):
    step = pl.program_id(2)

    @pl.when(step == 0)
    def _clear():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    def add_strip(i, _):
        columns = pl.ds(pl.multiple_of(i * strip, strip), strip)
        acc_ref[:, columns] += jnp.dot(
            a_ref[...], b_ref[:, columns], preferred_element_type=jnp.float32
        )
        return 0

    lax.fori_loop(0, o_ref.shape[1] // strip, add_strip, 0)

    @pl.when(step == pl.num_programs(2) - 1)
    def _write():
        o_ref[...] = acc_ref[...].astype(o_ref.dtype)
