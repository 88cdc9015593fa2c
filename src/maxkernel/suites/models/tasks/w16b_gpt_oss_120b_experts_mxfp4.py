"""w16b: mixture of experts of gpt-oss-120b with MXFP4 weights: 4-bit values, a scale per 32 rows.

Router logits x Wr + br in float32, the 4 largest, softmax over the four. An expert computes
t = x GU + gb, whose even columns are the gate and odd ones the up projection; gate is clipped above
at 7, up to +-7; h = (up + 1) gate sigmoid(1.702 gate); y = h D + db. The activation is float32.
Full size: 1024 tokens of 2880, width 2880 (22.5 tiles of 128).

GU and D are e2m1 values (0 0.5 1 1.5 2 3 4 6 and their negatives, sign in bit 3) times 2^(s - 127)
with a byte s per column and 32 rows. A byte holds rows 2 j (low half) and 2 j + 1 of a column.

A common direction in the tokens loads the experts unevenly; each token is the clearest of four
draws, because a near-tie of the router has two right answers. The weights are so large that a few
gates clip; columns differ in their spread, so that scales do.
"""

import jax
import jax.numpy as jnp
from jax import lax

TOLERANCE = {"atol": 7e-2, "rtol": 1e-2}

CHOSEN, LIMIT = 4, 7.0
BLOCK, BIAS = 32, 127


def reference(
    x, router, router_bias, gate_up, gate_up_scale, gate_up_bias, down, down_scale, down_bias
):
    """x: (T, E); router: (E, n); router_bias: (n,); gate_up: (n, E / 2, 2 M) uint8.

    gate_up_scale: (n, E / 32, 2 M) uint8; gate_up_bias: (n, 2 M); down: (n, M / 2, E) uint8;
    down_scale: (n, M / 32, E) uint8; down_bias: (n, E). Returns (T, E).
    """
    logits, experts = lax.top_k(router_logits(x, router, router_bias), CHOSEN)
    weights = jax.nn.softmax(logits, axis=-1)
    gate_up = dequantised(gate_up, gate_up_scale, x.dtype)
    down = dequantised(down, down_scale, x.dtype)

    experts = experts.reshape(-1)
    order = jnp.argsort(experts)
    sizes = jnp.sum(jax.nn.one_hot(experts, down.shape[0], dtype=jnp.int32), axis=0)
    t = lax.ragged_dot(x[order // CHOSEN], gate_up, sizes, preferred_element_type=jnp.float32)
    t = t + gate_up_bias[experts[order]]
    gate, up = jnp.minimum(t[:, 0::2], LIMIT), jnp.clip(t[:, 1::2], -LIMIT, LIMIT)
    h = ((up + 1.0) * gate * jax.nn.sigmoid(1.702 * gate)).astype(x.dtype)
    z = lax.ragged_dot(h, down, sizes, preferred_element_type=jnp.float32)
    z = (z + down_bias[experts[order]])[jnp.argsort(order)]
    return jnp.sum(weights[..., None] * z.reshape(*weights.shape, -1), axis=1).astype(x.dtype)


def dequantised(packed, scale, dtype):
    """packed: (n, K / 2, N) uint8; scale: (n, K / 32, N) uint8. Returns (n, K, N)."""
    codes = jnp.stack([packed & 15, packed >> 4], axis=2)
    codes = codes.reshape(scale.shape[0], scale.shape[1], BLOCK, scale.shape[2]).astype(jnp.int32)
    size = codes & 7
    quarters = jnp.where(size < 2, 2 * size, (2 + (size & 1)) << (size >> 1))
    value = jnp.where(codes > 7, -quarters, quarters).astype(jnp.float32) / 4.0
    power = jnp.exp2(scale.astype(jnp.float32) - BIAS)
    return (value * power[:, :, None]).astype(dtype).reshape(scale.shape[0], -1, scale.shape[2])


def router_logits(x, router, bias):
    return jnp.einsum("...e,en->...n", x, router, preferred_element_type=jnp.float32) + bias


def inputs(key):
    return draw(key, tokens=1024, width=2880, experts=128)


def check_inputs(key):
    return draw(key, tokens=128, width=352, experts=16)


def draw(key, tokens, width, experts):
    keys = jax.random.split(key, 8)
    router = normal(keys[1], (width, experts), width**-0.5)
    router_bias = normal(keys[2], (experts,), 0.5)
    draws = jax.random.normal(keys[0], (4, tokens, width)) + jax.random.normal(keys[7], (width,))
    return (
        clearest(draws.astype(jnp.bfloat16), router, router_bias),
        router,
        router_bias,
        *quantised(keys[3], experts, (width, 2 * width), 3.0 * (2 * width) ** -0.5),
        normal(keys[4], (experts, 2 * width), 0.5),
        *quantised(keys[5], experts, (width, width), width**-0.5),
        normal(keys[6], (experts, width), 0.5),
    )


def quantised(key, experts, shape, std):
    """Normal weights, expert by expert, as e2m1 codes and the scale that fits a block's largest."""

    def one(key):
        k_values, k_spread = jax.random.split(key)
        spread = std * jnp.exp(0.5 * jax.random.normal(k_spread, shape[1:]) - 0.25)
        w = (spread * jax.random.normal(k_values, shape)).reshape(-1, BLOCK, shape[1])
        power = jnp.floor(jnp.log2(jnp.max(jnp.abs(w), axis=1))) - 2
        size = jnp.abs(w) / jnp.exp2(power)[:, None]
        middles = jnp.array([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0])
        code = jnp.sum(size[..., None] > middles, axis=-1) + 8 * (w < 0)
        code = code.reshape(-1, 2, shape[1]).astype(jnp.uint8)
        return code[:, 0] | code[:, 1] << 4, (power + BIAS).astype(jnp.uint8)

    return lax.map(one, jax.random.split(key, experts))


def clearest(draws, router, bias):
    """Of several draws (first axis) of each token the one with the widest gap after the chosen."""
    top = lax.top_k(router_logits(draws, router, bias), CHOSEN + 1)[0]
    best = jnp.argmax(top[..., -2] - top[..., -1], axis=0)
    return jnp.take_along_axis(draws, best[None, :, None], axis=0)[0]


def normal(key, shape, std=1.0):
    return (std * jax.random.normal(key, shape)).astype(jnp.bfloat16)
