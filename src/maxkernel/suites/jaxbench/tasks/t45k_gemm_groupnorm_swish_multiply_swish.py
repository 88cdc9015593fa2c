"""45k: matrix product, group norm, Swish, multiply, Swish (KernelBench L2 #88).

t = x W^T + b; group norm of each row over runs of 32 features (biased variance, eps 1e-5), scaled
and shifted per feature; y = silu(silu(.) factor). Full size: M = 4096, K = N = 8192.

As published, scale and shift are ones and zeros; the hardened edition draws them.
"""

import jax
import jax.numpy as jnp

EDITION = "hardened"
TOLERANCE = {"atol": 8e-3, "rtol": 1e-2}

DTYPE = jnp.float32 if EDITION == "f32" else jnp.bfloat16

EPS = 1e-5


def reference(x, w, b, scale, shift, factor):
    """x: (M, K); w: (N, K); the others: (N,). Returns (M, N)."""
    t = x @ w.T + b
    u = group_norm(t, 32) * scale + shift
    u = u * jax.nn.sigmoid(u) * factor
    return u * jax.nn.sigmoid(u)


def group_norm(t, size):
    """Normalises runs of `size` consecutive features of each row."""
    groups = t.reshape(t.shape[0], -1, size)
    mean = jnp.mean(groups, axis=-1, keepdims=True)
    var = jnp.var(groups, axis=-1, keepdims=True)
    return ((groups - mean) / jnp.sqrt(var + EPS)).reshape(t.shape)


def inputs(key):
    return draw(key, m=4096, k=8192, n=8192)


def check_inputs(key):
    return draw(key, m=512, k=1024, n=2048)


def draw(key, m, k, n):
    k_w, k_b, k_factor = jax.random.split(second_seed(key, 42), 3)
    return (
        activations(key, (m, k)),
        normal(k_w, (n, k), 0.02 * (8192 / k) ** 0.5),
        normal(k_b, (n,), 0.5 if EDITION == "hardened" else 0.02),
        *affine(key, n),
        normal(k_factor, (n,)),
    )


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


def affine(key, width):
    """Scale and shift: ones and zeros as published, random in the hardened edition."""
    if EDITION == "hardened":
        scale, shift = jax.random.split(jax.random.fold_in(key, 101))
        return 1 + normal(scale, (width,), 0.25), normal(shift, (width,), 0.25)
    return jnp.ones(width, DTYPE), jnp.zeros(width, DTYPE)


def normal(key, shape, std=1.0):
    """Normal draws in DTYPE; the hardened edition rounds float32 draws, which take more values."""
    if EDITION == "hardened":
        return (std * jax.random.normal(key, shape)).astype(DTYPE)
    return jax.random.normal(key, shape, DTYPE) * std
