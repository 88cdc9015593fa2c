"""w15: mixture of experts of DeepSeek-V3 with its grouped sigmoid gate, one of 8 parallel ranks.

Gate in float32: s_e = sigmoid(x r_e); the choice score is s_e + bias_e. The score of a group of
experts is the sum of its two best choices; 4 of 8 groups stay, and the 8 best choices among them
serve the token with weights s_e / (sum + 1e-20) * 2.5. The rank holds the first experts only; its
output is their part plus a shared expert of weight 1. An expert is (silu(x gate) * (x up)) down.
Full size: 4096 tokens of 7168, 256 experts of width 2048, 32 of them local.

Each token is the clearest of four draws, because a near-tie of the gate has two right answers.
"""

import jax
import jax.numpy as jnp
from jax import lax

TOLERANCE = {"atol": 1e-2, "rtol": 1e-2}

GROUPS, KEPT_GROUPS, CHOSEN, FACTOR = 8, 4, 8, 2.5


def reference(x, router, bias, gate, up, down, shared_gate, shared_up, shared_down):
    """x: (T, E); router: (E, n); bias: (n,) float32; gate, up: (local, E, M); down: (local, M, E).

    shared_gate, shared_up: (E, M); shared_down: (M, E). Returns (T, E).
    """
    local = gate.shape[0]
    score = jax.nn.sigmoid(router_logits(x, router))
    experts = lax.top_k(kept(score + bias), CHOSEN)[1]
    weights = jnp.take_along_axis(score, experts, axis=-1)
    weights = weights / (jnp.sum(weights, axis=-1, keepdims=True) + 1e-20) * FACTOR

    experts = experts.reshape(-1)
    order = jnp.argsort(experts)
    sizes = jnp.sum(jax.nn.one_hot(experts, local, dtype=jnp.int32), axis=0)
    rows = x[order // CHOSEN]
    h = jax.nn.silu(lax.ragged_dot(rows, gate, sizes)) * lax.ragged_dot(rows, up, sizes)
    z = lax.ragged_dot(h, down, sizes)[jnp.argsort(order)]
    z = jnp.where((experts < local)[:, None], z, 0).astype(jnp.float32)
    routed = jnp.sum(weights[..., None] * z.reshape(*weights.shape, -1), axis=1)

    shared = (jax.nn.silu(x @ shared_gate) * (x @ shared_up)) @ shared_down
    return (routed + shared.astype(jnp.float32)).astype(x.dtype)


def router_logits(x, router):
    return jnp.einsum("...e,en->...n", x, router, preferred_element_type=jnp.float32)


def group_scores(choice):
    """Sum of the two best choices of each group."""
    return jnp.sum(lax.top_k(choice.reshape(*choice.shape[:-1], GROUPS, -1), 2)[0], axis=-1)


def kept(choice):
    """Choices of the best groups; -inf elsewhere."""
    groups = lax.top_k(group_scores(choice), KEPT_GROUPS)[1]
    stays = jnp.sum(jax.nn.one_hot(groups, GROUPS), axis=-2) > 0
    return jnp.where(jnp.repeat(stays, choice.shape[-1] // GROUPS, axis=-1), choice, -jnp.inf)


def inputs(key):
    return draw(key, tokens=4096, width=7168, hidden=2048, experts=256, local=32)


def check_inputs(key):
    return draw(key, tokens=256, width=256, hidden=128, experts=32, local=32)


def draw(key, tokens, width, hidden, experts, local):
    keys = jax.random.split(key, 9)
    router = normal(keys[1], (width, experts), width**-0.5)
    bias = 0.1 * jax.random.normal(keys[2], (experts,))
    return (
        clearest(normal(keys[0], (4, tokens, width)), router, bias),
        router,
        bias,
        normal(keys[3], (local, width, hidden), width**-0.5),
        normal(keys[4], (local, width, hidden), width**-0.5),
        normal(keys[5], (local, hidden, width), hidden**-0.5),
        normal(keys[6], (width, hidden), width**-0.5),
        normal(keys[7], (width, hidden), width**-0.5),
        normal(keys[8], (hidden, width), hidden**-0.5),
    )


def clearest(draws, router, bias):
    """Of several draws (first axis) of each token the one with the widest gaps: groups, experts."""
    choice = jax.nn.sigmoid(router_logits(draws, router)) + bias
    groups = lax.top_k(group_scores(choice), KEPT_GROUPS + 1)[0]
    experts = lax.top_k(kept(choice), CHOSEN + 1)[0]
    gap = jnp.minimum(groups[..., -2] - groups[..., -1], experts[..., -2] - experts[..., -1])
    best = jnp.argmax(gap, axis=0)
    return jnp.take_along_axis(draws, best[None, :, None], axis=0)[0]


def normal(key, shape, std=1.0):
    return (std * jax.random.normal(key, shape)).astype(jnp.bfloat16)
