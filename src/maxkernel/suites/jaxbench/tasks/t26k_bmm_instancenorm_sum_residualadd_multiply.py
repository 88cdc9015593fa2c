"""26k: matrix product, instance norm, residual add, multiply (KernelBench L2 #28).

t = x W^T + b; every plane of a row is normalised (biased variance, eps 1e-5), scaled and shifted
per feature; out = (normalised + y) y. Full size: M = 4096, K = N = 8192.

As published, a plane is a single feature: the normalised value is 0 and the matrix product dead.
In the hardened edition a plane is 128 consecutive features.
"""

import jax
import jax.numpy as jnp

EDITION = "hardened"
TOLERANCE = {"atol": 3e-2, "rtol": 1e-2}

DTYPE = jnp.float32 if EDITION == "f32" else jnp.bfloat16

PLANE = 128 if EDITION == "hardened" else 1
EPS = 1e-5


def reference(x, y, w, b, scale, shift):
    """x: (M, K); y: (M, N); w: (N, K); b, scale, shift: (N,). Returns (M, N)."""
    t = x @ w.T + b
    planes = t.reshape(t.shape[0], -1, PLANE)
    mean = jnp.mean(planes, axis=-1, keepdims=True)
    var = jnp.var(planes, axis=-1, keepdims=True)
    normalised = ((planes - mean) / jnp.sqrt(var + EPS)).reshape(t.shape)
    return (normalised * scale + shift + y) * y


def inputs(key):
    return draw(key, m=4096, k=8192, n=8192)


def check_inputs(key):
    return draw(key, m=512, k=1024, n=2048)


def draw(key, m, k, n):
    k_x, k_y = jax.random.split(key)
    k_w, k_b, k_shift = jax.random.split(second_seed(key, 42), 3)
    hardened = EDITION == "hardened"
    scale = jnp.ones(n, DTYPE)
    if hardened:
        scale = 1 + normal(jax.random.fold_in(key, 101), (n,), 0.25)
    return (
        activations(k_x, (m, k)),
        activations(k_y, (m, n)),
        normal(k_w, (n, k), 0.02 * (8192 / k) ** 0.5),
        normal(k_b, (n,), 0.5 if hardened else 0.02),
        scale,
        normal(k_shift, (n,), 0.25 if hardened else 0.02),
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


def normal(key, shape, std=1.0):
    """Normal draws in DTYPE; the hardened edition rounds float32 draws, which take more values."""
    if EDITION == "hardened":
        return (std * jax.random.normal(key, shape)).astype(DTYPE)
    return jax.random.normal(key, shape, DTYPE) * std
