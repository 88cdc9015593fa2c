"""w17: the experts of Mixtral-8x7B on rows that are already sorted by expert.

The next group_sizes[e] rows of x belong to expert e; y_i = w_i (silu(x_i gate_e) * (x_i up_e))
down_e, w_i the router's weight of the row. Sizes are ragged and add up to the number of rows: an
empty group, one row, the rest uneven. Full size: 16384 rows of 4096 (8192 tokens, 2 experts each),
8 experts of width 14336.
"""

import jax
import jax.numpy as jnp
from jax import lax

TOLERANCE = {"atol": 7e-3, "rtol": 1e-2}


def reference(x, row_weights, group_sizes, gate, up, down):
    """x: (R, E); row_weights: (R,) float32; group_sizes: (n,) int32; gate, up: (n, E, M).

    down: (n, M, E). Returns (R, E).
    """
    h = jax.nn.silu(lax.ragged_dot(x, gate, group_sizes)) * lax.ragged_dot(x, up, group_sizes)
    z = lax.ragged_dot(h, down, group_sizes, preferred_element_type=jnp.float32)
    return (row_weights[:, None] * z).astype(x.dtype)


def inputs(key):
    return draw(key, rows=16384, width=4096, hidden=14336, experts=8)


def check_inputs(key):
    return draw(key, rows=512, width=256, hidden=896, experts=8)


def draw(key, rows, width, hidden, experts):
    k_x, k_weights, k_sizes, k_gate, k_up, k_down = jax.random.split(key, 6)
    return (
        normal(k_x, (rows, width)),
        jax.nn.sigmoid(1.5 * jax.random.normal(k_weights, (rows,))),
        draw_sizes(k_sizes, experts, rows),
        normal(k_gate, (experts, width, hidden), width**-0.5),
        normal(k_up, (experts, width, hidden), width**-0.5),
        normal(k_down, (experts, hidden, width), hidden**-0.5),
    )


def draw_sizes(key, experts, rows):
    """Uneven sizes in random order, an empty one and a single row among them; they sum to rows."""
    k_share, k_order = jax.random.split(key)
    share = jax.random.uniform(k_share, (experts - 2,), minval=0.1)
    ends = jnp.round(jnp.cumsum(share) / jnp.sum(share) * (rows - 1))
    sizes = jnp.concatenate([jnp.array([0.0, 1.0]), jnp.diff(ends, prepend=0.0)])
    return jax.random.permutation(k_order, sizes.astype(jnp.int32))


def normal(key, shape, std=1.0):
    return (std * jax.random.normal(key, shape)).astype(jnp.bfloat16)
