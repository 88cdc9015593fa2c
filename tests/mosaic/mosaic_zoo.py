"""Kernels of the common styles: (function, arguments) by name."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from mosaic_twin import integers, normal

F32, BF16 = jnp.float32, jnp.bfloat16


def like(x: Any) -> Any:
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def rmsnorm(x: Any, w: Any) -> Any:
    rows, columns = x.shape
    block = 256

    def body(x_ref: Any, w_ref: Any, o_ref: Any) -> None:
        x = x_ref[...].astype(F32)
        scale = lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)
        o_ref[...] = (x * scale * w_ref[...].astype(F32)).astype(o_ref.dtype)

    return pl.pallas_call(
        body,
        grid=(pl.cdiv(rows, block),),
        in_specs=[
            pl.BlockSpec((block, columns), lambda i: (i, 0)),
            pl.BlockSpec((1, columns), lambda i: (0, 0)),
        ],
        out_specs=pl.BlockSpec((block, columns), lambda i: (i, 0)),
        out_shape=like(x),
        name="rmsnorm",
    )(x, w.reshape(1, columns))


def matmul(x: Any, y: Any, block: int = 128) -> Any:
    (m, k), n = x.shape, y.shape[1]
    acc = jnp.int32 if x.dtype == jnp.int8 else F32

    def body(x_ref: Any, y_ref: Any, o_ref: Any, acc_ref: Any) -> None:
        @pl.when(pl.program_id(2) == 0)
        def _() -> None:
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=acc)

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def _() -> None:
            o_ref[...] = acc_ref[...].astype(o_ref.dtype)

    return pl.pallas_call(
        body,
        grid=(m // block, n // block, k // block),
        in_specs=[
            pl.BlockSpec((block, block), lambda i, j, k: (i, k)),
            pl.BlockSpec((block, block), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((block, block), lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((m, n), jnp.int32 if x.dtype == jnp.int8 else x.dtype),
        scratch_shapes=[pltpu.VMEM((block, block), acc)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary")
        ),
        name="matmul",
    )(x, y)


def softmax(x: Any) -> Any:
    rows, columns = x.shape

    def body(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = jax.nn.softmax(x_ref[...].astype(F32), axis=-1).astype(o_ref.dtype)

    spec = pl.BlockSpec((8, columns), lambda i: (i, 0))
    return pl.pallas_call(
        body, grid=(pl.cdiv(rows, 8),), in_specs=[spec], out_specs=spec, out_shape=like(x)
    )(x)


def flash(q: Any, k: Any, v: Any) -> Any:
    heads, length, depth = q.shape
    block = 128

    def body(q_ref: Any, k_ref: Any, v_ref: Any, o_ref: Any, m_ref: Any, l_ref: Any, a_ref: Any):
        i, j = pl.program_id(1), pl.program_id(2)

        @pl.when(j == 0)
        def _() -> None:
            m_ref[...] = jnp.full_like(m_ref, -1e30)
            l_ref[...] = jnp.zeros_like(l_ref)
            a_ref[...] = jnp.zeros_like(a_ref)

        @pl.when(j <= i)
        def _() -> None:
            s = lax.dot_general(
                q_ref[...], k_ref[...], (((1,), (1,)), ((), ())), preferred_element_type=F32
            )
            rows = i * block + lax.broadcasted_iota(jnp.int32, s.shape, 0)
            columns = j * block + lax.broadcasted_iota(jnp.int32, s.shape, 1)
            s = jnp.where(rows >= columns, s * depth**-0.5, -1e30)
            before = m_ref[:, :1]
            now = jnp.maximum(before, s.max(-1, keepdims=True))
            p, scale = jnp.exp(s - now), jnp.exp(before - now)
            total = scale * l_ref[:, :1] + p.sum(-1, keepdims=True)
            l_ref[...] = jnp.broadcast_to(total, l_ref.shape)
            m_ref[...] = jnp.broadcast_to(now, m_ref.shape)
            a_ref[...] = a_ref[...] * scale + jnp.dot(
                p.astype(v_ref.dtype), v_ref[...], preferred_element_type=F32
            )

        @pl.when(j == pl.num_programs(2) - 1)
        def _() -> None:
            o_ref[...] = (a_ref[...] / l_ref[:, :1]).astype(o_ref.dtype)

    mine = pl.BlockSpec((None, block, depth), lambda h, i, j: (h, i, 0))
    other = pl.BlockSpec((None, block, depth), lambda h, i, j: (h, j, 0))
    return pl.pallas_call(
        body,
        grid=(heads, length // block, length // block),
        in_specs=[mine, other, other],
        out_specs=mine,
        out_shape=like(q),
        scratch_shapes=[pltpu.VMEM((block, 128), F32)] * 2 + [pltpu.VMEM((block, depth), F32)],
        name="flash",
    )(q, k, v)


def gather(index: Any, x: Any) -> Any:
    def body(index_ref: Any, x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] * 2.0

    return pl.pallas_call(
        body,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=index.shape,
            in_specs=[pl.BlockSpec((8, 128), lambda i, index: (index[i], 0))],
            out_specs=pl.BlockSpec((8, 128), lambda i, index: (i, 0)),
        ),
        out_shape=jax.ShapeDtypeStruct((index.shape[0] * 8, 128), x.dtype),
    )(index, x)


def accumulate(x: Any) -> Any:
    """The output block is revisited: column sums of all row blocks."""

    def body(x_ref: Any, o_ref: Any) -> None:
        @pl.when(pl.program_id(0) == 0)
        def _() -> None:
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += jnp.sum(x_ref[...], axis=0, keepdims=True)

    return pl.pallas_call(
        body,
        grid=(x.shape[0] // 8,),
        in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((1, 128), lambda i: (0, 0)),
        out_shape=jax.ShapeDtypeStruct((1, 128), x.dtype),
    )(x)


def several(x: Any, y: Any) -> Any:
    return softmax(matmul(matmul(x, y), y).T) + 1.0


def scanned(x: Any, w: Any) -> Any:
    return lax.scan(lambda c, _: (rmsnorm(c, w), jnp.sum(c)), x, None, length=3)


def branched(p: Any, x: Any, w: Any) -> Any:
    return lax.cond(p > 0, lambda: rmsnorm(x, w), lambda: x * 2)


def in_while(n: Any, x: Any, w: Any) -> Any:
    return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, rmsnorm(c[1], w)), (0, x))


def nested(x: Any, w: Any) -> Any:
    """One kernel called from two places through functions."""
    norm = jax.jit(lambda v: rmsnorm(v, w) * 2)
    return norm(x) - norm(jax.jit(jnp.sin)(x))


def surrounded(x: Any, w: Any) -> Any:
    """Operations with regions before, between and after kernels."""
    ordered = jnp.sort(x, axis=1)
    total = jnp.cumsum(rmsnorm(ordered, w), axis=0).at[3].set(1.0)
    return softmax(total) + lax.reduce_window(x, 0.0, lax.add, (1, 3), (1, 1), "SAME")


def switched(i: Any, x: Any, w: Any) -> Any:
    """Branches that use values from outside; two of them run kernels, in a loop."""

    def step(k: Any, c: Any) -> Any:
        return lax.switch(
            (i + k) % 3, [lambda: rmsnorm(c, w), lambda: softmax(c) + x, lambda: c * 2]
        )

    return lax.fori_loop(0, 4, step, x)


ZOO: dict[str, tuple[Any, list[Any]]] = {
    "rmsnorm": (rmsnorm, [normal(512, 1024, dtype=BF16), normal(1024, dtype=BF16)]),
    "rmsnorm_ragged": (rmsnorm, [normal(300, 256), normal(256)]),
    "matmul_bf16": (matmul, [normal(256, 384, dtype=BF16), normal(384, 256, dtype=BF16)]),
    "matmul_f32": (matmul, [normal(256, 256), normal(256, 256)]),
    "matmul_int8": (matmul, [integers(128, 256, dtype="int8"), integers(256, 128, dtype="int8")]),
    "softmax": (softmax, [normal(100, 256)]),
    "flash": (flash, [normal(2, 256, 128, dtype=BF16, seed=s) for s in range(3)]),
    "scalar_prefetch": (gather, [integers(6, low=0, high=8), normal(64, 128)]),
    "accumulate": (accumulate, [normal(64, 128)]),
    "several_calls": (several, [normal(128, 128), normal(128, 128, seed=1)]),
    "scan": (scanned, [normal(64, 256), normal(256)]),
    "cond_true": (branched, [integers(low=1), normal(64, 256), normal(256)]),
    "cond_false": (branched, [integers(low=-9, high=0), normal(64, 256), normal(256)]),
    "nested_functions": (nested, [normal(64, 256), normal(256)]),
    "regions_outside": (surrounded, [normal(64, 256), normal(256)]),
    "switch": (switched, [integers(low=0, high=3), normal(64, 256), normal(256)]),
    "while": (in_while, [integers(low=2, high=3), normal(64, 256), normal(256)]),
}
