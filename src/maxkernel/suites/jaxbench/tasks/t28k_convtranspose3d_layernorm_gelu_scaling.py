"""28k: transposed 3D convolution, layer norm over width, GELU, scale (KernelBench L2 #34).

Kernel 4x4x4, stride 2, padding 1: out[o, 2d-1+a, 2h-1+e, 2w-1+f] += x[i, d, h, w] k[i, o, a, e, f],
plus a bias per output channel. Layer norm over the last spatial axis (its 64 positions, biased
variance, eps 1e-5; scale and shift run along width), GELU in its tanh form, times 1. Full size:
x (32, 32, 16, 32, 32) to (32, 64, 32, 64, 64).

As published, bias and shift are zeros and scale is ones. The hardened edition draws scale and
shift; the bias cancels in the layer norm and becomes the constant 0.
"""

import jax
import jax.numpy as jnp
from jax import lax

EDITION = "hardened"
TOLERANCE = {"atol": 1e-2, "rtol": 1e-2}

DTYPE = jnp.float32 if EDITION == "f32" else jnp.bfloat16

EPS = 1e-5


def reference(x, w, conv_bias, scale, shift):
    """x: (n, Cin, D, H, W); w: (Cin, Cout, 4, 4, 4); conv_bias: (Cout,); scale, shift: (2 W,).

    Returns (n, Cout, 2 D, 2 H, 2 W).
    """
    c = conv_transpose3d(x, w) + jnp.reshape(conv_bias, (-1, 1, 1, 1))
    centred = c - jnp.mean(c, axis=-1, keepdims=True)
    var = jnp.mean(centred * centred, axis=-1, keepdims=True)
    y = centred / jnp.sqrt(var + EPS) * scale + shift
    return jax.nn.gelu(y, approximate=True) * 1.0


def conv_transpose3d(x, w):
    """Stride 2, padding 1, kernel 4: a convolution of the zero-dilated input with the flip."""
    return lax.conv_general_dilated(
        x,
        jnp.flip(w, (2, 3, 4)),
        window_strides=(1, 1, 1),
        padding=[(2, 2)] * 3,
        lhs_dilation=(2, 2, 2),
        dimension_numbers=("NCDHW", "IODHW", "NCDHW"),
    )


def inputs(key):
    return draw(key, count=32, depth=16, height=32)


def check_inputs(key):
    return draw(key, count=2, depth=4, height=6)


def draw(key, count, depth, height, width=32, channels=32, filters=64):
    k_x, k_w = jax.random.split(key)
    hardened = EDITION == "hardened"
    return (
        activations(k_x, (count, channels, depth, height, width)),
        normal(k_w, (channels, filters, 4, 4, 4), (8 * channels) ** -0.5 if hardened else 1.0),
        0.0 if hardened else jnp.zeros(filters, DTYPE),
        *affine(key, 2 * width),
    )


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
