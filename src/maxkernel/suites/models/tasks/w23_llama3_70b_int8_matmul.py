"""w23: int8 matrix product with scales per token and per column, Llama-3.1-70B gate projection.

y = bf16(f32(sum_k xq wq in int32) sx sw). Scales are max / 127, values rounded to nearest even.
Full size: 4096 tokens, 8192 to 28672. Every token has its own spread, exp(0.7 N(0, 1)).
"""

import jax
import jax.numpy as jnp

TOLERANCE = {"atol": 3e-2, "rtol": 1e-2}


def reference(x, x_scale, w, w_scale):
    """x: (T, K) int8; x_scale: (T, 1) float32; w: (K, N) int8; w_scale: (1, N) float32.

    Returns (T, N) bfloat16.
    """
    total = jnp.einsum("tk,kn->tn", x, w, preferred_element_type=jnp.int32)
    return (total.astype(jnp.float32) * x_scale * w_scale).astype(jnp.bfloat16)


def inputs(key):
    return draw(key, tokens=4096, k=8192, n=28672)


def check_inputs(key):
    return draw(key, tokens=256, k=1024, n=1792)


def draw(key, tokens, k, n):
    k_x, k_row, k_w = jax.random.split(key, 3)
    row = jnp.exp(0.7 * jax.random.normal(k_row, (tokens, 1)))
    x, x_scale = quantise(row * jax.random.normal(k_x, (tokens, k)), axis=1)
    w, w_scale = quantise(k**-0.5 * jax.random.normal(k_w, (k, n)), axis=0)
    return x, x_scale, w, w_scale


def quantise(t, axis):
    scale = jnp.max(jnp.abs(t), axis=axis, keepdims=True) / 127.0
    return jnp.clip(jnp.round(t / scale), -127, 127).astype(jnp.int8), scale
