"""32k: two matrix products with a sigmoid between, log-sum-exp (KernelBench L2 #45).

h = sigmoid(x W1^T + b1); t = h W2^T + b2; y = log sum_j exp(t_j). Full size: x (16384, 2048),
hidden width 4096, output width 1024.

As published, a constant passes. The hardened edition scales every row of x by exp(0.7 N(0, 1)) and
draws larger weights.
"""

import jax
import jax.numpy as jnp

EDITION = "hardened"
TOLERANCE = {"atol": 2e-2, "rtol": 1e-2}

DTYPE = jnp.float32 if EDITION == "f32" else jnp.bfloat16


def reference(x, w1, b1, w2, b2):
    """x: (M, K); w1: (H, K); b1: (H,); w2: (N, H); b2: (N,). Returns (M,)."""
    h = jax.nn.sigmoid(x @ w1.T + b1)
    return jax.nn.logsumexp(h @ w2.T + b2, axis=1)


def inputs(key):
    return draw(key, m=16384, k=2048, hidden=4096, n=1024)


def check_inputs(key):
    return draw(key, m=512, k=256, hidden=1024, n=512)


def draw(key, m, k, hidden, n):
    k_w1, k_b1, k_w2, k_b2 = jax.random.split(second_seed(key, 42), 4)
    if EDITION == "hardened":
        w1_std, w2_std, b_std = 2.0 / k**0.5, 8.0 / hidden**0.5, 1.0
    else:
        w1_std, w2_std, b_std = 0.02 * (2048 / k) ** 0.5, 0.02 * (4096 / hidden) ** 0.5, 0.02
    return (
        activations(key, (m, k)),
        normal(k_w1, (hidden, k), w1_std),
        normal(k_b1, (hidden,), b_std),
        normal(k_w2, (n, hidden), w2_std),
        normal(k_b2, (n,), b_std),
    )


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
