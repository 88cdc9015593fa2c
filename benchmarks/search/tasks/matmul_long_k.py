"""A matrix product that sums over far more than it keeps, then tanh."""

import jax
import jax.numpy as jnp

TOLERANCE = {"atol": 1e-2, "rtol": 1e-2}


def reference(x, w):
    """x: (m, k), w: (k, n), bfloat16."""
    return jnp.tanh(jnp.dot(x, w, preferred_element_type=jnp.float32))


def inputs(key):
    """Zero-mean data; weights scaled by fan-in."""
    return draw(key, 256, 16384, 256)


def check_inputs(key):
    """Several blocks, small enough for a CPU."""
    return draw(key, 128, 4096, 128)


def draw(key, m, k, n):
    one, two = jax.random.split(key)
    x = jax.random.normal(one, (m, k), jnp.bfloat16)
    w = jax.random.normal(two, (k, n)) * k**-0.5
    return x, w.astype(jnp.bfloat16)
