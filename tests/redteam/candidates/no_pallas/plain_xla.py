# attack: no Pallas kernel at all
# task: rows
# verdict: refused rules/no_pallas

import jax.numpy as jnp
from jax import lax


def plain(x, scale):
    y = x.astype(jnp.float32)
    y = y * lax.rsqrt(jnp.mean(y * y, -1, keepdims=True) + 1e-5)
    return (y * scale).astype(x.dtype)


kernel = plain
