"""Root-mean-square normalisation of rows, times a gate."""

import jax
import jax.numpy as jnp

TOLERANCE = {"atol": 2e-3, "rtol": 2e-3}


def reference(x, gate, scale):
    """x, gate: (rows, columns) float32; scale: (columns,)."""
    size = jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)
    return x * size * scale * jax.nn.silu(gate)


def inputs(key):
    """Rows of different sizes."""
    return draw(key, 4096, 2048)


def check_inputs(key):
    """Several blocks, small enough for a CPU."""
    return draw(key, 512, 2048)


def draw(key, rows, columns):
    one, two, three, four = jax.random.split(key, 4)
    size = jnp.exp(jax.random.normal(two, (rows, 1)))
    x = size * jax.random.normal(one, (rows, columns))
    gate = 2.0 * jax.random.normal(three, (rows, columns))
    return x, gate, 1.0 + 0.5 * jax.random.normal(four, (columns,))
