"""w16: mixture of experts of gpt-oss-120b: 128 experts, 4 per token, clipped gates, biases.

Router logits x Wr + br in float32, the 4 largest, softmax over the four. An expert computes
t = x GU + gb, whose even columns are the gate and odd ones the up projection; gate is clipped above
at 7, up to +-7; h = (up + 1) gate sigmoid(1.702 gate); y = h D + db. The activation is float32.
Full size: 1024 tokens of 2880, width 2880 (22.5 tiles of 128).

A common direction in the tokens loads the experts unevenly; each token is the clearest of four
draws, because a near-tie of the router has two right answers. The weights are so large that a few
gates clip.
"""

import jax
import jax.numpy as jnp
from jax import lax

TOLERANCE = {"atol": 7e-2, "rtol": 1e-2}

CHOSEN, LIMIT = 4, 7.0


def reference(x, router, router_bias, gate_up, gate_up_bias, down, down_bias):
    """x: (T, E); router: (E, n); router_bias: (n,); gate_up: (n, E, 2 M); gate_up_bias: (n, 2 M).

    down: (n, M, E); down_bias: (n, E). Returns (T, E).
    """
    logits, experts = lax.top_k(router_logits(x, router, router_bias), CHOSEN)
    weights = jax.nn.softmax(logits, axis=-1)

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


def router_logits(x, router, bias):
    return jnp.einsum("...e,en->...n", x, router, preferred_element_type=jnp.float32) + bias


def inputs(key):
    return draw(key, tokens=1024, width=2880, experts=128)


def check_inputs(key):
    return draw(key, tokens=128, width=360, experts=16)


def draw(key, tokens, width, experts):
    keys = jax.random.split(key, 8)
    router = normal(keys[1], (width, experts), width**-0.5)
    router_bias = normal(keys[2], (experts,), 0.5)
    draws = jax.random.normal(keys[0], (4, tokens, width)) + jax.random.normal(keys[7], (width,))
    return (
        clearest(draws.astype(jnp.bfloat16), router, router_bias),
        router,
        router_bias,
        normal(keys[3], (experts, width, 2 * width), 3.0 * (2 * width) ** -0.5),
        normal(keys[4], (experts, 2 * width), 0.5),
        normal(keys[5], (experts, width, width), width**-0.5),
        normal(keys[6], (experts, width), 0.5),
    )


def clearest(draws, router, bias):
    """Of several draws (first axis) of each token the one with the widest gap after the chosen."""
    top = lax.top_k(router_logits(draws, router, bias), CHOSEN + 1)[0]
    best = jnp.argmax(top[..., -2] - top[..., -1], axis=0)
    return jnp.take_along_axis(draws, best[None, :, None], axis=0)[0]


def normal(key, shape, std=1.0):
    return (std * jax.random.normal(key, shape)).astype(jnp.bfloat16)
