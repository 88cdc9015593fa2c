"""10p: mixture of experts, 8 experts of which 2 serve each token (Mixtral-8x7B feed-forward).

Router logits x Wr in bfloat16; the two largest (the lower index first on ties) get the softmax of
the two as weights; y = sum of weight times (silu(x gate) * (x up)) down over the chosen experts.
Expert products are bfloat16, the weighted sum is float32. Full size: x (2, 4096, 4096), expert
width 14336.

The published reference evaluates all 8 experts. The hardened one routes, by float32 logits: rows
sorted by expert and ragged products with float32 results, so that a kernel is not praised for
routing alone. Its tokens are the clearest of four draws each, because a near-tie has two right
answers.
"""

import jax
import jax.numpy as jnp
from jax import lax

EDITION = "hardened"
TOLERANCE = {"atol": 3e-2, "rtol": 1e-2}

CHOSEN = 2


def reference(x, router, gate, up, down):
    """x: (B, S, E); router: (E, n); gate, up: (n, E, M); down: (n, M, E). Returns float32 of x."""
    hardened = EDITION == "hardened"
    logits = router_logits(x, router) if hardened else x @ router
    logits, experts = lax.top_k(logits, CHOSEN)
    weights = jax.nn.softmax(logits, axis=-1)
    combine = routed if hardened else dense
    return combine(x, weights, experts, gate, up, down)


def router_logits(x, router):
    return jnp.einsum("...e,en->...n", x, router, preferred_element_type=jnp.float32)


def dense(x, weights, experts, gate, up, down):
    """Every expert on every token; one-hot weights in float32 pick the chosen ones."""
    chosen = jax.nn.one_hot(experts, gate.shape[0], dtype=jnp.float32)
    combine = jnp.einsum("bsk,bskn->bsn", weights, chosen)
    h = jax.nn.silu(jnp.einsum("bse,nem->bsnm", x, gate)) * jnp.einsum("bse,nem->bsnm", x, up)
    z = jnp.einsum("bsnm,nme->bsne", h, down)
    return jnp.einsum("bsn,bsne->bse", combine, z)


def routed(x, weights, experts, gate, up, down):
    """The chosen experts only: rows sorted by expert, three ragged products, and back."""
    rows = x.reshape(-1, x.shape[-1])
    experts = experts.reshape(-1)
    order = jnp.argsort(experts)
    sizes = jnp.sum(jax.nn.one_hot(experts, gate.shape[0], dtype=jnp.int32), axis=0)
    rows = rows[order // CHOSEN]
    h = jax.nn.silu(ragged_dot(rows, gate, sizes)) * ragged_dot(rows, up, sizes)
    z = ragged_dot(h.astype(x.dtype), down, sizes)[jnp.argsort(order)]
    z = z.reshape(*weights.shape, x.shape[-1])
    return jnp.sum(weights[..., None] * z, axis=2)


def ragged_dot(rows, weights, sizes):
    return lax.ragged_dot(rows, weights, sizes, preferred_element_type=jnp.float32)


def inputs(key):
    return draw(key, batch=2, length=4096, width=4096, hidden=14336, experts=8)


def check_inputs(key):
    return draw(key, batch=2, length=128, width=256, hidden=896, experts=8)


def draw(key, batch, length, width, hidden, experts):
    k_x, k_router, k_gate, k_up, k_down = jax.random.split(key, 5)
    std = 0.02 * (4096 / width) ** 0.5
    router = normal(k_router, (width, experts), std)
    if EDITION == "hardened":
        x = clearest(normal(k_x, (4, batch, length, width)), router)
    else:
        x = normal(k_x, (batch, length, width))
    return (
        x,
        router,
        normal(k_gate, (experts, width, hidden), std),
        normal(k_up, (experts, width, hidden), std),
        normal(k_down, (experts, hidden, width), std),
    )


def clearest(draws, router):
    """Of several draws (first axis) of each token the one with the widest gap after the chosen."""
    top = lax.top_k(router_logits(draws, router), CHOSEN + 1)[0]
    best = jnp.argmax(top[..., CHOSEN - 1] - top[..., CHOSEN], axis=0)
    return jnp.take_along_axis(draws, best[None, ..., None], axis=0)[0]


def normal(key, shape, std=1.0):
    """Normal draws; the hardened edition rounds float32 draws, bfloat16 ones take few values."""
    if EDITION == "hardened":
        return (std * jax.random.normal(key, shape)).astype(jnp.bfloat16)
    return jax.random.normal(key, shape, jnp.bfloat16) * std
