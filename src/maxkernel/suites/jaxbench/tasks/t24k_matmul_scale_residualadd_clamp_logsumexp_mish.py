"""24k: matrix product, scale, self-add, clamp, log-sum-exp, Mish (KernelBench L2 #22).

t = clip(2 u + 2 u, -10, 10) with u = x W^T + b; L = log sum_j exp(t_j); y = L mish(L) as a column,
mish(L) = L tanh(softplus(L)). Full size: M = 4096, K = N = 8192.

As published, one constant is right on 84 % of the rows. The hardened edition scales every row of x
by exp(0.7 N(0, 1)).
"""

import jax
import jax.numpy as jnp

EDITION = "hardened"
TOLERANCE = {"atol": 9e-1, "rtol": 1e-2}

DTYPE = jnp.float32 if EDITION == "f32" else jnp.bfloat16


def reference(x, w, b):
    """x: (M, K); w: (N, K); b: (N,). Returns (M, 1)."""
    t = (x @ w.T + b) * 2.0
    t = jnp.clip(t + t, -10.0, 10.0)
    lse = jax.nn.logsumexp(t, axis=1, keepdims=True)
    return lse * (lse * jnp.tanh(jax.nn.softplus(lse)))


def inputs(key):
    return draw(key, m=4096, k=8192, n=8192)


def check_inputs(key):
    return draw(key, m=512, k=1024, n=2048)


def draw(key, m, k, n):
    k_w, k_b = jax.random.split(second_seed(key, 42))
    hardened = EDITION == "hardened"
    w_std = 0.6 / k**0.5 if hardened else 0.02 * (8192 / k) ** 0.5
    b_std = 0.5 if hardened else 0.02
    return activations(key, (m, k)), normal(k_w, (n, k), w_std), normal(k_b, (n,), b_std)


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
