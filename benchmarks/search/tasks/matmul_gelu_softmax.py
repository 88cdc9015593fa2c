"""A matrix product, then gelu softmax."""

import jax
import jax.numpy as jnp

TOLERANCE = {"atol": 1e-2, "rtol": 1e-2}


def reference(x, w):
    """x: (m, k), w: (k, n), bfloat16."""
    h = jnp.dot(x, w, preferred_element_type=jnp.float32)
    return jax.nn.softmax(jax.nn.gelu(4.0 * h, approximate=True), axis=-1)


def inputs(key):
    """Zero-mean data; weights scaled by fan-in."""
    return draw(key, 1024, 512, 1024)


def check_inputs(key):
    """Several blocks, small enough for a CPU."""
    return draw(key, 256, 512, 1024)


def draw(key, m, k, n):
    one, two = jax.random.split(key)
    x = jax.random.normal(one, (m, k), jnp.bfloat16)
    w = jax.random.normal(two, (k, n)) * k**-0.5
    return x, w.astype(jnp.bfloat16)
