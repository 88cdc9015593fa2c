"""36k: matrix product, sigmoid, row sum (KernelBench L2 #56).

y = sum_j sigmoid((x W + b)_j), kept as a column. Full size: M = 4096, K = N = 8192.

As published, a constant passes. The hardened edition scales every row of x by exp(0.7 N(0, 1)) and
draws a bias around 1 whose mean varies, too.
"""

import jax
import jax.numpy as jnp

EDITION = "hardened"
TOLERANCE = {"atol": 9e-1, "rtol": 1e-2}

DTYPE = jnp.float32 if EDITION == "f32" else jnp.bfloat16


def reference(x, w, b):
    """x: (M, K); w: (K, N); b: (N,). Returns (M, 1)."""
    return jnp.sum(jax.nn.sigmoid(x @ w + b), axis=1, keepdims=True)


def inputs(key):
    return draw(key, m=4096, k=8192, n=8192)


def check_inputs(key):
    return draw(key, m=512, k=1024, n=2048)


def draw(key, m, k, n):
    k_w, k_b = jax.random.split(second_seed(key, 42))
    x = activations(key, (m, k))
    if EDITION == "hardened":
        mean = 1 + normal(jax.random.fold_in(key, 101), (), 0.5)
        return x, normal(k_w, (k, n), 1.5 / k**0.5), mean + normal(k_b, (n,), 0.5)
    return x, normal(k_w, (k, n), 0.02 * (8192 / k) ** 0.5), normal(k_b, (n,), 0.02)


def activations(key, shape):
    """Uniform in [0, 1) as published; hardened: N(0, 1), each row scaled by exp(0.7 N(0, 1))."""
    if EDITION != "hardened":
        return jax.random.uniform(key, shape, DTYPE)
    k_row, k_noise = jax.random.split(key)
    row = jnp.exp(0.7 * jax.random.normal(k_row, (shape[0], 1)))
    return normal(k_noise, shape, row)


def second_seed(key, seed):
    """The original draws weights from a second seed: `seed` where `key` has seed 0 (else XOR)."""
    data = jax.random.key_data(key)
    data = data.at[-1].set(data[-1] ^ seed)
    return jax.random.wrap_key_data(data, impl=jax.random.key_impl(key))


def normal(key, shape, std=1.0):
    """Normal draws in DTYPE; the hardened edition rounds float32 draws, which take more values."""
    if EDITION == "hardened":
        return (std * jax.random.normal(key, shape)).astype(DTYPE)
    return jax.random.normal(key, shape, DTYPE) * std
