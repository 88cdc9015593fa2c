"""21k: matrix product, divide, row sum, scale (KernelBench L2 #14).

y = 1.5 sum_j (x W^T)_j / 2, kept as a column; the product asks for the highest precision. Full
size: M = 4096, K = N = 8192.

As published, the matrix product collapses to x times the column sums of W. The hardened edition
puts a ReLU before the sum: y = 1.5 sum_j relu((x W^T)_j / 2).
"""

import jax
import jax.numpy as jnp
from jax import lax

EDITION = "hardened"
TOLERANCE = {"atol": 5e-1, "rtol": 1e-2}

DTYPE = jnp.float32 if EDITION == "f32" else jnp.bfloat16


def reference(x, w):
    """x: (M, K); w: (N, K). Returns (M, 1)."""
    t = jnp.matmul(x, w.T, precision=lax.Precision.HIGHEST) / 2
    if EDITION == "hardened":
        t = jax.nn.relu(t)
    return jnp.sum(t, axis=1, keepdims=True) * 1.5


def inputs(key):
    return draw(key, m=4096, k=8192, n=8192)


def check_inputs(key):
    return draw(key, m=512, k=1024, n=2048)


def draw(key, m, k, n):
    k_x, k_w = jax.random.split(key)
    w_std = k**-0.5 if EDITION == "hardened" else 1.0
    return activations(k_x, (m, k)), normal(k_w, (n, k), w_std)


def activations(key, shape):
    """Uniform in [0, 1) as published; centred, N(0, 1), in the hardened edition."""
    if EDITION == "hardened":
        return normal(key, shape)
    return jax.random.uniform(key, shape, DTYPE)


def normal(key, shape, std=1.0):
    """Normal draws in DTYPE; the hardened edition rounds float32 draws, which take more values."""
    if EDITION == "hardened":
        return (std * jax.random.normal(key, shape)).astype(DTYPE)
    return jax.random.normal(key, shape, DTYPE) * std
