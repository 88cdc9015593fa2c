"""23k: matrix product, sum, max, mean, log-sum-exp twice (KernelBench L2 #18).

t = x W^T + b; y = sum_j t_j as a column: the four operations after the sum act on an axis of
length 1 and change nothing. Full size: M = 4096, K = N = 8192.

As published, the matrix product collapses to x times the column sums of W, ill-conditioned. The
hardened edition makes the reductions real: the mean over pools of 16 features, then log-sum-exp
over the pools, with weights so large that a few pools decide.
"""

import jax
import jax.numpy as jnp

EDITION = "hardened"
TOLERANCE = {"atol": 2e-2, "rtol": 1e-2}

DTYPE = jnp.float32 if EDITION == "f32" else jnp.bfloat16


def reference(x, w, b):
    """x: (M, K); w: (N, K); b: (N,). Returns (M, 1)."""
    t = x @ w.T + b
    if EDITION == "hardened":
        pools = jnp.mean(t.reshape(t.shape[0], -1, 16), axis=-1)
        return jax.nn.logsumexp(pools, axis=1, keepdims=True)
    y = jnp.sum(t, axis=1, keepdims=True)
    y = jnp.max(y, axis=1, keepdims=True)
    y = jnp.mean(y, axis=1, keepdims=True)
    y = jax.nn.logsumexp(y, axis=1, keepdims=True)
    return jax.nn.logsumexp(y, axis=1, keepdims=True)


def inputs(key):
    return draw(key, m=4096, k=8192, n=8192)


def check_inputs(key):
    return draw(key, m=512, k=1024, n=2048)


def draw(key, m, k, n):
    k_w, k_b = jax.random.split(second_seed(key, 0xBADC0DE))
    hardened = EDITION == "hardened"
    w_std = 16.0 / k**0.5 if hardened else 0.02 * (8192 / k) ** 0.5
    b_std = 0.5 if hardened else 0.02
    return activations(key, (m, k)), normal(k_w, (n, k), w_std), normal(k_b, (n,), b_std)


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
