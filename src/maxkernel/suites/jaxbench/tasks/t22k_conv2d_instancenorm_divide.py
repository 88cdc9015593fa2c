"""22k: 2D convolution, instance norm, divide (KernelBench L2 #17).

c = conv(x, w) + conv_bias (3x3, stride 1, no padding); every image's channel is normalised over its
own pixels (biased variance, eps 1e-5), scaled and shifted, and halved. Full size: x (128, 64, 128,
128) to (128, 128, 126, 126).

As published, scale and shift are ones and zeros; the hardened edition draws them. The convolution's
bias cancels in the normalisation: the hardened edition makes it the constant 0.
"""

import jax
import jax.numpy as jnp
from jax import lax

EDITION = "hardened"
TOLERANCE = {"atol": 1e-2, "rtol": 1e-2}

DTYPE = jnp.float32 if EDITION == "f32" else jnp.bfloat16

EPS = 1e-5


def reference(x, w, conv_bias, scale, shift):
    """x: (n, Cin, H, W); w: (Cout, Cin, 3, 3); the others: (Cout,).

    Returns (n, Cout, H - 2, W - 2).
    """
    c = conv2d(x, w) + jnp.reshape(conv_bias, (-1, 1, 1))
    mean = jnp.mean(c, axis=(2, 3), keepdims=True)
    var = jnp.var(c, axis=(2, 3), keepdims=True)
    normalised = (c - mean) / jnp.sqrt(var + EPS)
    return (normalised * scale[:, None, None] + shift[:, None, None]) / 2.0


def conv2d(x, w):
    """Cross-correlation without padding: NCHW with OIHW."""
    return lax.conv_general_dilated(
        x, w, (1, 1), "VALID", dimension_numbers=("NCHW", "OIHW", "NCHW")
    )


def inputs(key):
    return draw(key, images=128, side=128)


def check_inputs(key):
    return draw(key, images=4, side=32)


def draw(key, images, side, channels=64, filters=128):
    k_w, k_cb = jax.random.split(second_seed(key, 0xBADC0DE))
    hardened = EDITION == "hardened"
    return (
        activations(key, (images, channels, side, side)),
        normal(k_w, (filters, channels, 3, 3), (9 * channels) ** -0.5 if hardened else 0.02),
        0.0 if hardened else normal(k_cb, (filters,), 0.02),
        *affine(key, filters),
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
