"""42k: matrix product, subtract the row maximum, GELU (KernelBench L2 #80).

t = x W + b; y = gelu(t - max_j t_j), GELU in its tanh form. Full size: M = 4096, K = N = 8192.

As published, t - max is around -3.9, where GELU vanishes: zeros are right on 86 % of the elements
(and the published time is of another formula, whose result is 0). The hardened edition draws small
weights, so that t - max is around -1.5.
"""

import jax
import jax.numpy as jnp

EDITION = "hardened"
TOLERANCE = {"atol": 8e-4, "rtol": 1e-2}

DTYPE = jnp.float32 if EDITION == "f32" else jnp.bfloat16


def reference(x, w, b):
    """x: (M, K); w: (K, N); b: (N,). Returns (M, N)."""
    t = x @ w + b
    return jax.nn.gelu(t - jnp.max(t, axis=1, keepdims=True), approximate=True)


def inputs(key):
    return draw(key, m=4096, k=8192, n=8192)


def check_inputs(key):
    return draw(key, m=512, k=1024, n=2048)


def draw(key, m, k, n):
    k_x, k_w, k_b = jax.random.split(key, 3)
    hardened = EDITION == "hardened"
    w_std = 0.4 / k**0.5 if hardened else 0.02 * (8192 / k) ** 0.5
    b_std = 0.1 if hardened else 0.02
    return activations(k_x, (m, k)), normal(k_w, (k, n), w_std), normal(k_b, (n,), b_std)


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
