"""w14: mixture of experts, Qwen3-235B-A22B: 128 experts of width 1536, 8 per token.

Router: softmax over all experts in float32, the 8 largest, divided by their sum. y = sum of weight
times (silu(x gate) * (x up)) down. The reference sorts rows by expert and uses ragged products.
Full size: 4096 tokens of 4096.

A common direction in the tokens loads the experts unevenly. Each token is the clearest of four
draws, because a near-tie of the router has two right answers.
"""

import jax
import jax.numpy as jnp
from jax import lax

TOLERANCE = {"atol": 1e-2, "rtol": 1e-2}


def reference(x, router, gate, up, down, chosen):
    """x: (T, E); router: (E, n); gate, up: (n, E, M); down: (n, M, E); chosen: int.

    Returns (T, E).
    """
    logits = jnp.einsum("te,en->tn", x, router, preferred_element_type=jnp.float32)
    weights, experts = lax.top_k(jax.nn.softmax(logits, axis=-1), chosen)
    weights = weights / jnp.sum(weights, axis=-1, keepdims=True)

    experts = experts.reshape(-1)
    order = jnp.argsort(experts)
    sizes = jnp.sum(jax.nn.one_hot(experts, gate.shape[0], dtype=jnp.int32), axis=0)
    rows = x[order // chosen]
    h = jax.nn.silu(lax.ragged_dot(rows, gate, sizes)) * lax.ragged_dot(rows, up, sizes)
    z = lax.ragged_dot(h, down, sizes)[jnp.argsort(order)].reshape(*weights.shape, -1)
    return jnp.sum(weights[..., None] * z.astype(jnp.float32), axis=1).astype(x.dtype)


def inputs(key):
    return *draw(key, tokens=4096, width=4096, hidden=1536, experts=128, chosen=8), 8


def check_inputs(key):
    return *draw(key, tokens=256, width=256, hidden=192, experts=16, chosen=4), 4


def draw(key, tokens, width, hidden, experts, chosen):
    k_x, k_common, k_router, k_gate, k_up, k_down = jax.random.split(key, 6)
    router = normal(k_router, (width, experts), width**-0.5)
    draws = jax.random.normal(k_x, (4, tokens, width)) + jax.random.normal(k_common, (width,))
    return (
        clearest(draws.astype(jnp.bfloat16), router, chosen),
        router,
        normal(k_gate, (experts, width, hidden), width**-0.5),
        normal(k_up, (experts, width, hidden), width**-0.5),
        normal(k_down, (experts, hidden, width), hidden**-0.5),
    )


def clearest(draws, router, chosen):
    """Of several draws (first axis) of each token the one with the widest gap after the chosen."""
    logits = jnp.einsum("dte,en->dtn", draws, router, preferred_element_type=jnp.float32)
    top = lax.top_k(logits, chosen + 1)[0]
    best = jnp.argmax(top[..., -2] - top[..., -1], axis=0)
    return jnp.take_along_axis(draws, best[None, :, None], axis=0)[0]


def normal(key, shape, std=1.0):
    return (std * jax.random.normal(key, shape)).astype(jnp.bfloat16)
