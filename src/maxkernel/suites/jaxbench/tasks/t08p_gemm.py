"""8p: dense matrix product, Llama-3.1-70B hidden to feed-forward width.

C = A B with float32 accumulation and a bfloat16 result. Full size: A (8192, 8192),
B (8192, 28672).
"""

import jax
import jax.numpy as jnp

EDITION = "hardened"
TOLERANCE = {"atol": 3e-2, "rtol": 1e-2}


def reference(a, b):
    """a: (M, K); b: (K, N). Returns (M, N)."""
    return a @ b


def inputs(key):
    return draw(key, m=8192, k=8192, n=28672)


def check_inputs(key):
    return draw(key, m=512, k=1024, n=2048)


def draw(key, m, k, n):
    k_a, k_b = jax.random.split(key)
    return normal(k_a, (m, k)), normal(k_b, (k, n), 0.02 * (8192 / k) ** 0.5)


def normal(key, shape, std=1.0):
    """Normal draws; the hardened edition rounds float32 draws, bfloat16 ones take few values."""
    if EDITION == "hardened":
        return (std * jax.random.normal(key, shape)).astype(jnp.bfloat16)
    return jax.random.normal(key, shape, jnp.bfloat16) * std
