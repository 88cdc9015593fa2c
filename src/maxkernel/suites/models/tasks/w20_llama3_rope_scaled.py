"""w20: rotary embedding with the frequency scaling of Llama-3.1.

f_i = 5e5^(-2i/128), wavelength L = 2 pi / f: above 8192 f is divided by 8, below 2048 it stays, in
between f' = (1 - s) f / 8 + s f with s = (8192 / L - 1) / 3. Halves are paired; angles, cosines and
sines are float32, and positions reach 78,000. Full size: 8192 positions, q 64 and k 8 heads of 128.
"""

import math

import jax
import jax.numpy as jnp

TOLERANCE = {"atol": 2e-2, "rtol": 1e-2}

THETA, FACTOR, LOW, HIGH, ORIGINAL = 5e5, 8.0, 1.0, 4.0, 8192.0


def reference(q, k, positions):
    """q: (B, S, Hq, D); k: (B, S, Hkv, D); positions: (B, S) int32. Returns q and k, rotated."""
    angle = positions[..., None].astype(jnp.float32) * frequencies(q.shape[-1] // 2)
    cos, sin = jnp.cos(angle)[:, :, None], jnp.sin(angle)[:, :, None]
    return rotate(q, cos, sin), rotate(k, cos, sin)


def frequencies(half):
    f = THETA ** (-jnp.arange(half, dtype=jnp.float32) / half)
    wavelength = 2 * math.pi / f
    smooth = (ORIGINAL / wavelength - LOW) / (HIGH - LOW)
    mixed = (1 - smooth) * f / FACTOR + smooth * f
    scaled = jnp.where(wavelength > ORIGINAL / LOW, f / FACTOR, mixed)
    return jnp.where(wavelength < ORIGINAL / HIGH, f, scaled)


def rotate(t, cos, sin):
    a, b = jnp.split(t.astype(jnp.float32), 2, axis=-1)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1).astype(t.dtype)


def inputs(key):
    return draw(key, batch=1, length=8192, heads=64, kv_heads=8)


def check_inputs(key):
    return draw(key, batch=2, length=512, heads=16, kv_heads=2)


def draw(key, batch, length, heads, kv_heads, width=128):
    """The first half of the positions starts near 0, the second near 70,000."""
    k_q, k_k, k_start = jax.random.split(key, 3)
    start = jax.random.randint(k_start, (batch, 1), 0, 100, jnp.int32)
    step = jnp.arange(length, dtype=jnp.int32)
    return (
        normal(k_q, (batch, length, heads, width)),
        normal(k_k, (batch, length, kv_heads, width)),
        start + jnp.where(step < length // 2, step, 70_000 + step),
    )


def normal(key, shape, std=1.0):
    return (std * jax.random.normal(key, shape)).astype(jnp.bfloat16)
