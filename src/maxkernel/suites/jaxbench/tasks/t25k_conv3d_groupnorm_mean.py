"""25k: 3D convolution, group norm, global mean (KernelBench L2 #23).

c = conv(x, w) + conv_bias (3x3x3, stride 1, no padding); the 24 channels form 8 groups, each
normalised over its channels and positions (biased variance, eps 1e-5), scaled and shifted per
channel; y_n = mean of everything of image n. Full size: x (128, 3, 24, 32, 32).

As published, scale is ones, so that the mean is mean(shift) whatever x is. The hardened edition
draws scale, and gives every image and channel its own offset and spread.
"""

import jax
import jax.numpy as jnp
from jax import lax

EDITION = "hardened"
TOLERANCE = {"atol": 1e-4, "rtol": 1e-2}

DTYPE = jnp.float32 if EDITION == "f32" else jnp.bfloat16

GROUPS, EPS = 8, 1e-5


def reference(x, w, conv_bias, scale, shift):
    """x: (n, Cin, D, H, W); w: (Cout, Cin, 3, 3, 3); the others: (Cout,). Returns (n,)."""
    c = conv3d(x, w) + conv_bias[:, None, None, None]
    groups = c.reshape(c.shape[0], GROUPS, -1)
    mean = jnp.mean(groups, axis=-1, keepdims=True)
    var = jnp.var(groups, axis=-1, keepdims=True)
    normalised = ((groups - mean) / jnp.sqrt(var + EPS)).reshape(c.shape)
    y = normalised * scale[:, None, None, None] + shift[:, None, None, None]
    return jnp.mean(y, axis=(1, 2, 3, 4))


def conv3d(x, w):
    """Cross-correlation without padding: NCDHW with OIDHW."""
    return lax.conv_general_dilated(
        x, w, (1, 1, 1), "VALID", dimension_numbers=("NCDHW", "OIDHW", "NCDHW")
    )


def inputs(key):
    return draw(key, images_count=128)


def check_inputs(key):
    return draw(key, images_count=8)


def draw(key, images_count, channels=3, filters=24):
    k_w, k_cb, k_shift = jax.random.split(second_seed(key, 42), 3)
    hardened = EDITION == "hardened"
    scale = jnp.ones(filters, DTYPE)
    if hardened:
        scale = 1 + normal(jax.random.fold_in(key, 101), (filters,), 0.5)
    return (
        images(key, (images_count, channels, 24, 32, 32)),
        normal(k_w, (filters, channels, 3, 3, 3), (27 * channels) ** -0.5 if hardened else 0.02),
        normal(k_cb, (filters,), 0.5 if hardened else 0.02),
        scale,
        normal(k_shift, (filters,), 0.5 if hardened else 0.02),
    )


def images(key, shape):
    """Uniform in [0, 1) as published.

    Hardened: every image and channel has its own offset N(0, 1) and spread exp(0.5 N(0, 1)).
    """
    if EDITION != "hardened":
        return jax.random.uniform(key, shape, DTYPE)
    k_offset, k_spread, k_noise = jax.random.split(key, 3)
    plane = shape[:2] + (1,) * (len(shape) - 2)
    offset = jax.random.normal(k_offset, plane)
    spread = jnp.exp(0.5 * jax.random.normal(k_spread, plane))
    return (offset + spread * jax.random.normal(k_noise, shape)).astype(DTYPE)


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
