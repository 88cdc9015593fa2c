"""46k: 2D convolution, group norm, tanh, hard-swish, residual, log-sum-exp (KernelBench L2 #92).

c = conv(x, w) + conv_bias (3x3, stride 1, no padding); u = group norm of c over 4 channels and all
pixels (biased variance, eps 1e-5), scaled and shifted; h = tanh(u); r = h clip(h + 3, 0, 6) / 6;
y = log sum over channels of exp(c + r). Full size: x (128, 8, 128, 128) to (128, 1, 126, 126).

As published, one constant is right on 88 % of the pixels. The hardened edition gives every image
and channel its own offset and spread, draws larger weights and all affine parameters.
"""

import jax
import jax.numpy as jnp
from jax import lax

EDITION = "hardened"
TOLERANCE = {"atol": 1e-2, "rtol": 1e-2}

DTYPE = jnp.float32 if EDITION == "f32" else jnp.bfloat16

GROUPS, EPS = 16, 1e-5


def reference(x, w, conv_bias, scale, shift):
    """x: (n, Cin, H, W); w: (Cout, Cin, 3, 3); the others: (Cout,).

    Returns (n, 1, H - 2, W - 2).
    """
    c = conv2d(x, w) + conv_bias[:, None, None]
    groups = c.reshape(c.shape[0], GROUPS, -1)
    mean = jnp.mean(groups, axis=-1, keepdims=True)
    var = jnp.var(groups, axis=-1, keepdims=True)
    u = ((groups - mean) / jnp.sqrt(var + EPS)).reshape(c.shape)
    h = jnp.tanh(u * scale[:, None, None] + shift[:, None, None])
    r = h * jnp.clip(h + 3.0, 0.0, 6.0) / 6.0
    return jax.nn.logsumexp(c + r, axis=1, keepdims=True)


def conv2d(x, w):
    """Cross-correlation without padding: NCHW with OIHW."""
    return lax.conv_general_dilated(
        x, w, (1, 1), "VALID", dimension_numbers=("NCHW", "OIHW", "NCHW")
    )


def inputs(key):
    return draw(key, count=128, side=128)


def check_inputs(key):
    return draw(key, count=4, side=32)


def draw(key, count, side, channels=8, filters=64):
    k_w, k_cb = jax.random.split(second_seed(key, 42))
    w_std, b_std = ((9 * channels) ** -0.5, 0.5) if EDITION == "hardened" else (0.02, 0.02)
    return (
        images(key, (count, channels, side, side)),
        normal(k_w, (filters, channels, 3, 3), w_std),
        normal(k_cb, (filters,), b_std),
        *affine(key, filters),
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


def affine(key, width):
    """Scale and shift: ones and zeros as published, random in the hardened edition."""
    if EDITION == "hardened":
        scale, shift, mean = jax.random.split(jax.random.fold_in(key, 101), 3)
        return 1 + normal(scale, (width,), 1.0), normal(mean, ()) + normal(shift, (width,))
    return jnp.ones(width, DTYPE), jnp.zeros(width, DTYPE)


def normal(key, shape, std=1.0):
    """Normal draws in DTYPE; the hardened edition rounds float32 draws, which take more values."""
    if EDITION == "hardened":
        return (std * jax.random.normal(key, shape)).astype(DTYPE)
    return jax.random.normal(key, shape, DTYPE) * std
