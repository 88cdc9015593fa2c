"""A small row-wise task: standardise rows, then GELU."""

import jax
import jax.numpy as jnp

TOLERANCE = {"atol": 1e-3, "rtol": 1e-3}


def reference(x):
    """x: (rows, columns) float32."""
    centred = x - jnp.mean(x, axis=-1, keepdims=True)
    scaled = centred * jax.lax.rsqrt(jnp.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)
    return jax.nn.gelu(scaled, approximate=True)


def inputs(key):
    """Rows whose level and size differ."""
    one, two, three = jax.random.split(key, 3)
    x = jax.random.normal(one, (2048, 1024))
    level = jax.random.normal(two, (2048, 1))
    size = jnp.exp(jax.random.normal(three, (2048, 1)))
    return (x * size + level,)


def check_inputs(key):
    """A few blocks."""
    return (inputs(key)[0][:256],)
