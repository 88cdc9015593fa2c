"""31k: matrix product, batch norm with batch statistics, GELU, ReLU (KernelBench L2 #41).

t = x W^T + b; every feature is normalised over the rows (biased variance, eps 1e-5), scaled and
shifted; y = relu(gelu(.)), GELU in its tanh form. Full size: M = 16384, K = N = 8192.

As published, scale and shift are ones and zeros; the hardened edition draws them. The bias of the
product cancels in the normalisation: the hardened edition makes it the constant 0.
"""

import jax
import jax.numpy as jnp

EDITION = "hardened"
TOLERANCE = {"atol": 1e-2, "rtol": 1e-2}

DTYPE = jnp.float32 if EDITION == "f32" else jnp.bfloat16

EPS = 1e-5


def reference(x, w, b, scale, shift):
    """x: (M, K); w: (N, K); b, scale, shift: (N,). Returns (M, N)."""
    t = x @ w.T + b
    centred = t - jnp.mean(t, axis=0)
    var = jnp.mean(centred * centred, axis=0)
    u = centred / jnp.sqrt(var + EPS) * scale + shift
    return jax.nn.relu(jax.nn.gelu(u, approximate=True))


def inputs(key):
    return draw(key, m=16384, k=8192, n=8192)


def check_inputs(key):
    return draw(key, m=1024, k=512, n=1024)


def draw(key, m, k, n):
    k_x, k_w, k_b = jax.random.split(key, 3)
    b = 0.0 if EDITION == "hardened" else normal(k_b, (n,))
    return activations(k_x, (m, k)), normal(k_w, (n, k)), b, *affine(key, n)


def activations(key, shape):
    """Uniform in [0, 1) as published; centred, N(0, 1), in the hardened edition."""
    if EDITION == "hardened":
        return normal(key, shape)
    return jax.random.uniform(key, shape, DTYPE)


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
