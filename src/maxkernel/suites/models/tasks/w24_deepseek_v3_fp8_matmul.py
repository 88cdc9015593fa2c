"""w24: fp8 matrix product with block scales, the DeepSeek-V3 format.

x has a scale per token and 128 columns, w one per 128 x 128 block:
y = bf16(sum_b sx[t, b] sw[n // 128, b] (sum_{k in b} xq wq)), partial sums float32. v5e and v6e
have no fp8 matrix unit; bfloat16 holds every e4m3 value. Full size: 4096 tokens, 7168 to 4096 (gate
and up of one expert). Every block of columns of x has its own magnitude, exp(N(0, 1)).
"""

import jax
import jax.numpy as jnp
from jax import lax

TOLERANCE = {"atol": 1e-2, "rtol": 1e-2}

BLOCK, LARGEST = 128, 448.0


def reference(x, x_scale, w, w_scale):
    """x: (T, K), w: (N, K) float8_e4m3fn; x_scale: (T, K/128), w_scale: (N/128, K/128) float32.

    Returns (T, N) bfloat16.
    """
    tokens, features = x.shape[0], w.shape[0]
    x = jnp.moveaxis(x.reshape(tokens, -1, BLOCK), 1, 0).astype(jnp.bfloat16)
    w = jnp.moveaxis(w.reshape(features, -1, BLOCK), 1, 0).astype(jnp.bfloat16)
    w_scale = jnp.repeat(w_scale, BLOCK, axis=0)

    def add_block(total, block):
        x_b, x_scale_b, w_b, w_scale_b = block
        part = jnp.einsum("tk,nk->tn", x_b, w_b, preferred_element_type=jnp.float32)
        return total + part * x_scale_b[:, None] * w_scale_b, None

    total = jnp.zeros((tokens, features), jnp.float32)
    total, _ = lax.scan(add_block, total, (x, x_scale.T, w, w_scale.T))
    return total.astype(jnp.bfloat16)


def inputs(key):
    return draw(key, tokens=4096, k=7168, n=4096)


def check_inputs(key):
    return draw(key, tokens=256, k=512, n=384)


def draw(key, tokens, k, n):
    k_x, k_block, k_w = jax.random.split(key, 3)
    magnitude = jnp.exp(jax.random.normal(k_block, (k // BLOCK, 1)))
    x = magnitude * jax.random.normal(k_x, (tokens, k // BLOCK, BLOCK))
    w = k**-0.5 * jax.random.normal(k_w, (n // BLOCK, BLOCK, k // BLOCK, BLOCK))
    x, x_scale = quantise(x, (2,))
    w, w_scale = quantise(w, (1, 3))
    return x.reshape(tokens, k), x_scale[..., 0], w.reshape(n, k), w_scale[:, 0, :, 0]


def quantise(t, axes):
    scale = jnp.max(jnp.abs(t), axis=axes, keepdims=True) / LARGEST
    return (t / scale).astype(jnp.float8_e4m3fn), scale
