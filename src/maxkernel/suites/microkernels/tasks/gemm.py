"""A matrix product inside VMEM, bfloat16 with float32 accumulation, `rounds` times over."""

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl

PARAMETERS = {"rows": 512, "depth": 1024, "columns": 512, "rounds": 512}


def inputs(key):
    left, right = jax.random.split(key)
    rows, depth, columns = (PARAMETERS[name] for name in ("rows", "depth", "columns"))
    return (
        jax.random.normal(left, (2 * rows, depth), jnp.bfloat16),
        jax.random.normal(right, (depth, columns), jnp.bfloat16),
    )


def reference(a, b):
    """a: (2 M, K), b: (K, N), bf16. Returns (M, N) f32: the sum of all products."""
    shape = (PARAMETERS["rows"], PARAMETERS["columns"])
    return pl.pallas_call(_multiply, out_shape=jax.ShapeDtypeStruct(shape, jnp.float32))(a, b)


def _multiply(a_ref, b_ref, o_ref):
    rows = PARAMETERS["rows"]
    o_ref[...] = jnp.zeros_like(o_ref)

    @pl.loop(0, PARAMETERS["rounds"])
    def _(step):
        a = a_ref[pl.ds(pl.multiple_of(lax.rem(step, 2) * rows, rows), rows), :]
        o_ref[...] += jnp.dot(a, b_ref[...], preferred_element_type=jnp.float32)
