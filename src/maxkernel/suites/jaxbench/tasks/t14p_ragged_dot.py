"""14p: grouped matrix product, Mixtral-8x7B expert projection ("ragged dot").

As published it is not ragged: x (8, 1024, 4096) times w (8, 4096, 14336), a batched product in
bfloat16. The hardened edition is: x (8192, 4096) flat, group g the next group_sizes[g] rows,
multiplied by w[g]; rows past the last group are 0. Sizes are drawn from the key: an empty group, a
single row, one group above a quarter of the rows, and unused rows at the end.
"""

import jax
import jax.numpy as jnp
from jax import lax

EDITION = "hardened"
TOLERANCE = {"atol": 2e-2, "rtol": 1e-2}


def reference(x, w, group_sizes=None):
    """x: (M, K); w: (G, K, N); group_sizes: (G,) int32. Returns (M, N).

    Published: x is (G, M/G, K), there are no group_sizes, and the result is (G, M/G, N).
    """
    if group_sizes is None:
        return jnp.einsum("gmk,gkn->gmn", x, w)
    y = lax.ragged_dot(x, w, group_sizes)
    used = jnp.arange(x.shape[0]) < jnp.sum(group_sizes)
    return jnp.where(used[:, None], y, 0)


def inputs(key):
    return draw(key, groups=8, m=8192, k=4096, n=14336)


def check_inputs(key):
    return draw(key, groups=8, m=1024, k=512, n=1792)


def draw(key, groups, m, k, n):
    k_x, k_w = jax.random.split(key)
    w = normal(k_w, (groups, k, n), 0.02 * (4096 / k) ** 0.5)
    if EDITION == "hardened":
        return normal(k_x, (m, k)), w, ragged_sizes(jax.random.fold_in(key, 102), groups, m)
    return normal(k_x, (groups, m // groups, k)), w


def ragged_sizes(key, groups, rows):
    """Sizes in random order: one row, above a quarter of the rows, an eighth empty, a tail left."""
    k_share, k_large, k_order = jax.random.split(key, 3)
    empty = groups // 8
    large = rows // 4 + jax.random.randint(k_large, (), 1, rows // 16)
    share = jax.random.uniform(k_share, (groups - 2 - empty,), minval=0.1)
    left = rows - rows // 64 - large - 1
    others = jnp.floor(share / jnp.sum(share) * left).astype(jnp.int32)
    sizes = jnp.concatenate([jnp.array([1]), large[None], jnp.zeros(empty), others])
    return jax.random.permutation(k_order, sizes.astype(jnp.int32))


def normal(key, shape, std=1.0):
    """Normal draws; the hardened edition rounds float32 draws, bfloat16 ones take few values."""
    if EDITION == "hardened":
        return (std * jax.random.normal(key, shape)).astype(jnp.bfloat16)
    return jax.random.normal(key, shape, jnp.bfloat16) * std
