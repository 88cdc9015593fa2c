"""41k: matrix product, bias, ReLU (KernelBench L2 #76).

y = relu(x W + b). Full size: M = 4096, K = N = 8192.
"""

import jax
import jax.numpy as jnp

EDITION = "hardened"
TOLERANCE = {"atol": 2e-2, "rtol": 1e-2}

DTYPE = jnp.float32 if EDITION == "f32" else jnp.bfloat16


def reference(x, w, b):
    """x: (M, K); w: (K, N); b: (N,). Returns (M, N)."""
    return jax.nn.relu(x @ w + b)


def inputs(key):
    return draw(key, m=4096, k=8192, n=8192)


def check_inputs(key):
    return draw(key, m=512, k=1024, n=2048)


def draw(key, m, k, n):
    k_w, k_b = jax.random.split(second_seed(key, 0xBADC0DE))
    w_std = 0.02 * (8192 / k) ** 0.5
    b_std = 0.5 if EDITION == "hardened" else 0.02
    return activations(key, (m, k)), normal(k_w, (k, n), w_std), normal(k_b, (n,), b_std)


def activations(key, shape):
    """Uniform in [0, 1) as published; centred, N(0, 1), in the hardened edition."""
    if EDITION == "hardened":
        return normal(key, shape)
    return jax.random.uniform(key, shape, DTYPE)


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
