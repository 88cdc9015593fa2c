"""A matrix product, a bias, relu, and a residual."""

import jax
import jax.numpy as jnp

TOLERANCE = {"atol": 1e-2, "rtol": 1e-2}


def reference(x, w, bias, residual):
    """x: (m, k), w: (k, n), residual: (m, n), bfloat16; bias: (n,) float32."""
    h = jnp.dot(x, w, preferred_element_type=jnp.float32) + bias
    return (jax.nn.relu(h) + residual).astype(x.dtype)


def inputs(key):
    """Zero-mean data; weights scaled by fan-in."""
    return draw(key, 1024, 1024, 1024)


def check_inputs(key):
    """Several blocks, small enough for a CPU."""
    return draw(key, 256, 512, 512)


def draw(key, m, k, n):
    one, two, three, four = jax.random.split(key, 4)
    x = jax.random.normal(one, (m, k), jnp.bfloat16)
    w = (jax.random.normal(two, (k, n)) * k**-0.5).astype(jnp.bfloat16)
    residual = jax.random.normal(four, (m, n), jnp.bfloat16)
    return x, w, jax.random.normal(three, (n,)), residual
