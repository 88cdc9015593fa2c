"""11p: grouped matrix product, Qwen3-235B-A22B expert projection (megablox).

Consecutive rows of lhs belong to groups of group_sizes[g] rows, and group g is multiplied by
rhs[g]: float32 accumulation, bfloat16 result. Rows past the last group are 0. Full size: 128
groups, lhs (32768, 4096), rhs (128, 4096, 1536).

As published, all groups have 256 rows and a batched product passes (the published baseline
multiplied one fixed window of rows per group, which is only right for equal groups). The hardened
edition draws ragged sizes from the key: empty groups, a single row, one group above a quarter of
the rows, and unused rows at the end.
"""

import jax
import jax.numpy as jnp
from jax import lax

EDITION = "hardened"
TOLERANCE = {"atol": 2e-2, "rtol": 1e-2}


def reference(lhs, rhs, group_sizes):
    """lhs: (M, K); rhs: (G, K, N); group_sizes: (G,) int32. Returns (M, N)."""
    y = lax.ragged_dot(lhs, rhs, group_sizes, preferred_element_type=jnp.float32)
    used = jnp.arange(lhs.shape[0]) < jnp.sum(group_sizes)
    return jnp.where(used[:, None], y, 0).astype(lhs.dtype)


def inputs(key):
    return draw(key, groups=128, m=32768, k=4096, n=1536)


def check_inputs(key):
    return draw(key, groups=8, m=1024, k=1024, n=768)


def draw(key, groups, m, k, n):
    k_lhs, k_rhs = jax.random.split(key)
    if EDITION == "hardened":
        sizes = ragged_sizes(jax.random.fold_in(key, 102), groups, m)
    else:
        sizes = jnp.full((groups,), m // groups, jnp.int32)
    rhs = normal(k_rhs, (groups, k, n), 0.02 * (4096 / k) ** 0.5)
    return normal(k_lhs, (m, k)), rhs, sizes


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
