"""The hand-written Pallas kernels of JaxBench: jax's own public kernels at the published tiles.

3p is not among them: its kernel was written for the benchmark.
"""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.pallas.ops.tpu import flash_attention as flash
from jax.experimental.pallas.ops.tpu import matmul, paged_attention, ragged_paged_attention
from jax.experimental.pallas.ops.tpu.megablox import gmm
from jax.experimental.pallas.ops.tpu.splash_attention import (
    splash_attention_kernel as splash,
)
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks

BF16 = jnp.bfloat16


def array(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, BF16)


def build(number: str):
    """The function and its inputs for one kernel; ValueError where it is not made again."""
    if number not in _KERNELS:
        raise ValueError(f"{number}: the hand-written kernel is not made again")
    return _KERNELS[number]()


def flash_attention():
    blocks = flash.BlockSizes(block_q=2048, block_k_major=2048, block_k=1024, block_b=1)
    call = functools.partial(
        flash.flash_attention, causal=True, sm_scale=1 / math.sqrt(128), block_sizes=blocks
    )
    return call, [array(4, 64, 4096, 128)] * 3


def splash_attention(heads: int, tile: int, compute: int, swap: bool):
    mask = masks.MultiHeadMask([masks.CausalMask((4096, 4096))] * heads)
    kernel = splash.make_splash_mha(
        mask,
        block_sizes=splash.BlockSizes(block_q=tile, block_kv=tile, block_kv_compute=compute),
        head_shards=1,
        q_seq_shards=1,
    )

    def call(q, k, v):
        if swap:
            q, k, v = (x.swapaxes(1, 2) for x in (q, k, v))
        k, v = (jnp.repeat(x, heads // 8, axis=1) for x in (k, v))
        out = jax.vmap(kernel)(q, k, v)
        return out.swapaxes(1, 2) if swap else out

    if swap:
        return call, [array(4, 4096, heads, 128), *[array(4, 4096, 8, 128)] * 2]
    return call, [array(4, heads, 4096, 128), *[array(4, 8, 4096, 128)] * 2]


def paged():
    call = functools.partial(paged_attention.paged_attention, pages_per_compute_block=128)
    lengths = np.full(64, 4096, np.int32)
    table = np.arange(64 * 256, dtype=np.int32).reshape(64, 256)
    pool = array(8, 64 * 256, 16, 128)
    return call, [array(64, 64, 128), pool, pool, lengths, table]


def ragged_paged():
    call = functools.partial(
        ragged_paged_attention.ragged_paged_attention,
        sm_scale=1 / math.sqrt(128),
        num_kv_pages_per_block=32,
        num_queries_per_block=64,
        vmem_limit_bytes=1 << 25,
    )
    lengths = np.full(64, 4096, np.int32)
    table = np.arange(64 * 256, dtype=np.int32).reshape(64, 256)
    starts = (np.arange(65) * 64).astype(np.int32)
    pool = array(64 * 256, 16, 16, 128)
    count = np.array([64], np.int32)
    return call, [array(4096, 64, 128), pool, lengths, table, starts, count]


def dense():
    call = functools.partial(matmul.matmul, block_shape=(1024, 2048), block_k=1024)
    return call, [array(8192, 8192), array(8192, 28672)]


def grouped():
    call = functools.partial(gmm, tiling=(256, 1024, 1024))
    sizes = np.full(128, 256, np.int32)
    return call, [array(32768, 4096), array(128, 4096, 1536), sizes]


_KERNELS = {
    "1p": flash_attention,
    "2p": functools.partial(splash_attention, 128, 2048, 1024, True),
    "4p": functools.partial(splash_attention, 64, 2048, 1024, False),
    "6p": paged,
    "7p": ragged_paged,
    "8p": dense,
    "11p": grouped,
}
