"""Attention of a few heads."""

import jax
import jax.numpy as jnp

TOLERANCE = {"atol": 1e-2, "rtol": 1e-2}


def reference(q, k, v):
    """q, k, v: (heads, length, width), bfloat16."""
    s = jnp.einsum("hqd,hkd->hqk", q, k, preferred_element_type=jnp.float32)
    p = jax.nn.softmax(s * q.shape[-1] ** -0.5, axis=-1)
    return jnp.einsum("hqk,hkd->hqd", p.astype(v.dtype), v)


def inputs(key):
    """Zero-mean data, sharp enough that single keys count."""
    return draw(key, 8, 1024, 128)


def check_inputs(key):
    """Several blocks, small enough for a CPU."""
    return draw(key, 2, 512, 128)


def draw(key, heads, length, width):
    one, two, three = jax.random.split(key, 3)
    shape = (heads, length, width)
    q = 3.0 * jax.random.normal(one, shape)
    k = jax.random.normal(two, shape, jnp.bfloat16)
    v = jax.random.normal(three, shape, jnp.bfloat16)
    return q.astype(jnp.bfloat16), k, v
