"""33k: 3D convolution, Mish, tanh (KernelBench L2 #47).

c = conv(x, w) + b (3x3x3, stride 1, no padding); y = tanh(c tanh(log(1 + e^c))). Full size:
x (16, 32, 32, 64, 64) to (16, 64, 30, 62, 62).
"""

import jax
import jax.numpy as jnp
from jax import lax

EDITION = "hardened"
TOLERANCE = {"atol": 8e-3, "rtol": 1e-2}

DTYPE = jnp.float32 if EDITION == "f32" else jnp.bfloat16


def reference(x, w, b):
    """x: (n, Cin, D, H, W); w: (Cout, Cin, 3, 3, 3); b: (Cout,).

    Returns (n, Cout, D - 2, H - 2, W - 2).
    """
    c = conv3d(x, w) + b[:, None, None, None]
    return jnp.tanh(c * jnp.tanh(jnp.log(1.0 + jnp.exp(c))))


def conv3d(x, w):
    """Cross-correlation without padding: NCDHW with OIDHW."""
    return lax.conv_general_dilated(
        x, w, (1, 1, 1), "VALID", dimension_numbers=("NCDHW", "OIDHW", "NCDHW")
    )


def inputs(key):
    return draw(key, count=16, depth=32, side=64)


def check_inputs(key):
    return draw(key, count=2, depth=6, side=32)


def draw(key, count, depth, side, channels=32, filters=64):
    k_w, k_b = jax.random.split(second_seed(key, 0xBADC0DE))
    w_std, b_std = ((27 * channels) ** -0.5, 0.5) if EDITION == "hardened" else (0.02, 0.02)
    return (
        activations(key, (count, channels, depth, side, side)),
        normal(k_w, (filters, channels, 3, 3, 3), w_std),
        normal(k_b, (filters,), b_std),
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
