"""Grouped matrix product for 11p: a work list of (row tile, group) pairs, prefetched as scalars.

Group ends need not fall on tile boundaries. A tile that several groups share occurs once per group
and each visit writes only the rows of its group. The contraction is not split: a group's weights
for one column block stay in VMEM across its tiles. Rows past the last group form a group of their
own whose visits write zeros.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

TUNABLES = {"block_m": (256, 128, 512), "block_n": (1536, 768)}


def kernel(lhs, rhs, group_sizes, block_m=256, block_n=1536):
    """lhs: (M, K); rhs: (G, K, N); group_sizes: (G,) int32. Returns (M, N)."""
    (m, k), (groups, _, n) = lhs.shape, rhs.shape
    block_m, block_n = min(block_m, m), min(block_n, n)
    ends, item_group, item_tile = _work_list(group_sizes, m, block_m)
    items = m // block_m + groups

    def weights(j, item, ends, group, tile):
        return jnp.minimum(group[item], groups - 1), 0, j

    return pl.pallas_call(
        functools.partial(_multiply, groups=groups, block_m=block_m),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=3,
            grid=(n // block_n, items),
            in_specs=[
                pl.BlockSpec((block_m, k), lambda j, item, ends, group, tile: (tile[item], 0)),
                pl.BlockSpec((1, k, block_n), weights),
            ],
            out_specs=pl.BlockSpec(
                (block_m, block_n), lambda j, item, ends, group, tile: (tile[item], j)
            ),
        ),
        out_shape=jax.ShapeDtypeStruct((m, n), lhs.dtype),
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "arbitrary"), vmem_limit_bytes=100 << 20
        ),
    )(ends, item_group, item_tile, lhs, rhs)


def _work_list(group_sizes, m, block_m):
    """Group ends (G + 1,), and group and row tile of every item, in row order.

    A last group holds the unused rows. There are at most M / block_m + G items; the spare ones at
    the end repeat the last tile with an empty group.
    """
    ends = jnp.append(jnp.cumsum(group_sizes), m).astype(jnp.int32)
    starts = jnp.concatenate([jnp.zeros(1, jnp.int32), ends[:-1]])
    first_tile = starts // block_m
    tiles = jnp.where(ends > starts, (ends - 1) // block_m - first_tile + 1, 0)
    last_item = jnp.cumsum(tiles)
    item = jnp.arange(m // block_m + group_sizes.shape[0], dtype=jnp.int32)
    group = jnp.sum(last_item <= item[:, None], axis=1).astype(jnp.int32)
    inside = jnp.minimum(group, ends.shape[0] - 1)
    tile = first_tile[inside] + item - (last_item - tiles)[inside]
    return ends, group, jnp.minimum(tile, m // block_m - 1).astype(jnp.int32)


def _multiply(ends_ref, group_ref, tile_ref, lhs_ref, rhs_ref, o_ref, *, groups, block_m):
    item = pl.program_id(1)
    group = group_ref[item]
    inside = jnp.minimum(group, groups)
    start = jnp.where(inside == 0, 0, ends_ref[jnp.maximum(inside - 1, 0)])
    row = tile_ref[item] * block_m + lax.broadcasted_iota(jnp.int32, o_ref.shape, 0)
    mine = (row >= start) & (row < ends_ref[inside])

    @pl.when(group < groups)
    def _product():
        y = jnp.dot(lhs_ref[...], rhs_ref[0], preferred_element_type=jnp.float32)
        o_ref[...] = jnp.where(mine, y.astype(o_ref.dtype), o_ref[...])

    @pl.when(group == groups)
    def _unused():
        o_ref[...] = jnp.where(mine, 0, o_ref[...])
