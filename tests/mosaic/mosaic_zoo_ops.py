"""Single operations inside a kernel: (function, arguments) by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from mosaic_twin import integers, normal
from mosaic_zoo import BF16, F32


def inside(fn: Callable[..., Any], shape: tuple[int, ...], dtype: Any) -> Callable[..., Any]:
    """A kernel that applies `fn` to whole arrays."""

    def body(*refs: Any) -> None:
        *ins, out = refs
        out[...] = fn(*(r[...] for r in ins))

    def call(*arrays: Any) -> Any:
        return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(shape, dtype))(*arrays)

    return call


def large_carry(x: Any) -> Any:
    """A loop that carries a value so large that the interpreter frees it early."""
    return lax.fori_loop(0, 3, lambda i, c: c * 0.5 + jnp.tanh(c), x)


A, B = normal(16, 128), normal(16, 128, seed=1)
P = np.abs(A) + 0.1
N, J = integers(16, 128, low=-99, high=99), integers(16, 128, low=1, high=9)
U = integers(16, 128, dtype=np.uint32, low=0, high=1 << 31) * 2 + 1
H, G = A.astype(BF16), B.astype(BF16)
BIG = normal(32, 256)
HUGE = normal(512, 256)
W4 = integers(128, 128, low=-8, high=7).astype(ml_dtypes.int4)
HASH, TOP = np.uint32(2654435761), np.uint32(1 << 31)


def same(fn: Callable[..., Any], *arrays: Any, dtype: Any = None) -> tuple[Any, list[Any]]:
    return inside(fn, arrays[0].shape, dtype or arrays[0].dtype), list(arrays)


def count_up(x: Any) -> Any:
    _, total = lax.while_loop(
        lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * 0.5 + c[0].astype(F32)), (0, x)
    )
    return total


def pick(x: Any, n: int) -> Any:
    return lax.switch(n + jnp.int32(0), [lambda v: v, lambda v: v + 1, lambda v: v * 3], x)


def on_scalars(x: Any, y: Any) -> Any:
    """Integer arithmetic on scalars in SMEM, for many pairs of operands."""

    def results(a: Any, b: Any) -> list[Any]:
        u, v = a.astype(jnp.uint32), b.astype(jnp.uint32)
        whole = [a + b, a - b, a * b, a // b, a % b, lax.rem(a, b), lax.div(a, b), a & b, a | ~b]
        whole += [jnp.minimum(a, b), jnp.maximum(a, b), a >> (b & 31), a << (b & 31), a ^ b, -a]
        bare = [u // v, u % v, u >> (v & 31), jnp.minimum(u, v), jnp.where(u < v, u, v)]
        flags = [a < b, a >= b, u <= v, (a > 0) & (b > 0)]
        floats = [(a.astype(F32) * 0.37).astype(jnp.int32), jnp.abs(a)]
        return [r.astype(jnp.int32) for r in (*whole, *bare, *flags, *floats)]

    width = len(results(jnp.int32(3), jnp.int32(4)))

    def body(x_ref: Any, y_ref: Any, o_ref: Any) -> None:
        def step(i: Any, _: Any) -> Any:
            for k, r in enumerate(results(x_ref[i], y_ref[i])):
                o_ref[i * width + k] = r
            return 0

        lax.fori_loop(0, x.shape[0], step, 0)

    smem = pl.BlockSpec(memory_space=pltpu.SMEM)
    shape = jax.ShapeDtypeStruct((x.shape[0] * width,), jnp.int32)
    return pl.pallas_call(body, in_specs=[smem, smem], out_specs=smem, out_shape=shape)(x, y)


EDGES = np.array([0, 1, -1, 7, -8, 123456789, -987654321, 2**31 - 1, -(2**31), 31], np.int32)


def contract(dims: Any, x: Any, y: Any) -> Any:
    return lax.dot_general(x, y, dims, preferred_element_type=F32)


ZOO: dict[str, tuple[Any, list[Any]]] = {
    "float_binary": same(lambda a, b: (a + b) * (a - b) / (b * b + 1) + jnp.maximum(a, b), A, B),
    "large_carry": same(large_carry, HUGE),
    "float_minmax": same(lambda a, b: jnp.minimum(a, b) * jnp.sign(a) - jnp.abs(b), A, B),
    "exp_log": same(lambda p: jnp.exp(-p) + jnp.log(p) + jnp.log1p(p) + jnp.exp2(p), P),
    "trigonometry": same(lambda a: jnp.sin(a) + jnp.cos(a) * jnp.tanh(a) + jnp.tan(a * 0.3), A),
    "roots": same(lambda p: jnp.sqrt(p) + lax.rsqrt(p) + p**3 + jnp.power(p, 1.7), P),
    "rounding": same(lambda a: jnp.floor(a) + 10 * jnp.ceil(a) + 100 * jnp.round(a * 2), A),
    "logistic": same(lambda a: jax.nn.sigmoid(a) + jax.nn.silu(a) + jax.nn.gelu(a), A),
    "erf": same(lambda a: lax.erf(a), A),
    "bf16": same(lambda a, b: a * b + jnp.exp(a) - b, H, G),
    "bf16_sum": (inside(lambda a: a.astype(F32).sum(0, keepdims=True), (1, 128), F32), [H]),
    "float_compare": same(lambda a, b: jnp.where(a > b, a, b) + jnp.where(a != b, 1.0, 2.0), A, B),
    "finite": same(lambda a: jnp.where(jnp.isfinite(1 / (a - a)), 1.0, 2.0) + jnp.isnan(a), A),
    "reciprocal": same(lambda p: pl.reciprocal(p), P),
    "int_binary": same(lambda i, j: (i + j) * (i - j) + i // j + i % j + lax.rem(i, j), N, J),
    "int_bits": same(lambda i, j: ((i & j) | (i ^ j)) + (i << 3) + (i >> 2) + ~j, N, J),
    "int_minmax": same(lambda i, j: jnp.maximum(i, j) - jnp.minimum(i, -j) + jnp.abs(i), N, J),
    "unsigned": same(lambda u: (u >> 7) ^ (u * HASH) ^ (u // 3) ^ jnp.minimum(u, TOP), U),
    "popcount": same(lambda u: lax.population_count(u) + lax.clz(u >> 5), U),
    "int_compare": same(lambda i, j: jnp.where((i < j) ^ (i >= 0), i, j), N, J),
    "casts": same(lambda i: i.astype(jnp.int8).astype(F32) + i.astype(jnp.int16), N, dtype=F32),
    "float_to_int": same(lambda a: (a * 100).astype(jnp.int32), A, dtype=jnp.int32),
    "narrow_floats": same(lambda a: a.astype(jnp.float8_e4m3fn).astype(F32), A),
    "uint8": same(lambda u: u.astype(jnp.int32) + 1, U.astype(np.uint8), dtype=jnp.int32),
    "bool": same(lambda m, a: jnp.where(m, a, 0.0), A > 0, A, dtype=F32),
    "bitcast_same": same(lambda a: pltpu.bitcast(a, jnp.int32) >> 3, A, dtype=jnp.int32),
    "bitcast_wide": (inside(lambda h: pltpu.bitcast(h, jnp.int32), (8, 128), jnp.int32), [H]),
    "bitcast_narrow": (inside(lambda u: pltpu.bitcast(u, jnp.int16), (32, 128), jnp.int16), [U]),
    "iota": same(lambda i: i + lax.broadcasted_iota(jnp.int32, (16, 128), 1) * 2, N),
    "sum_max": (
        inside(lambda x: x.sum(1, keepdims=True) + x.max(0, keepdims=True), (32, 256), F32),
        [BIG],
    ),
    "min_all": (inside(lambda x: jnp.full((8, 128), x.min()), (8, 128), F32), [BIG]),
    "argmax": (inside(lambda x: jnp.argmax(x, 1).reshape(32, 1), (32, 1), jnp.int32), [BIG]),
    "any_all": same(lambda a: jnp.where(jnp.any(a > 2), a, -a), A),
    "transpose": (inside(lambda x: x.T, (256, 32), F32), [BIG]),
    "reshape": (inside(lambda x: x.reshape(4, 8, 256).sum(0), (8, 256), F32), [BIG]),
    "concatenate": (inside(lambda a, b: jnp.concatenate([a, b], 1), (16, 256), F32), [A, B]),
    "tile": (inside(lambda a: jnp.tile(a, (2, 2)), (32, 256), F32), [A]),
    "slice": (inside(lambda x: x[8:16, 128:] + x[0:8, :128], (8, 128), F32), [BIG]),
    "roll": same(lambda a: pltpu.roll(a, 5, 1) + pltpu.roll(a, 3, 0), A),
    "roll_strided": same(lambda a: pltpu.roll(a, 1, 1, stride=1, stride_axis=0), A),
    "take": (
        inside(lambda x, i: jnp.take_along_axis(x, i, axis=1), (8, 128), F32),
        [A[:8], integers(8, 128, low=0, high=127)],
    ),
    "batched_dot": (
        inside(lambda x, y: jnp.einsum("bij,bjk->bik", x, y), (2, 8, 128), F32),
        [normal(2, 8, 16), normal(2, 16, 128)],
    ),
    "dot_lhs_transposed": (
        inside(lambda x, y: contract((((0,), (0,)), ((), ())), x, y), (256, 128), F32),
        [BIG, normal(32, 128)],
    ),
    "dot_highest": (
        inside(lambda x, y: jnp.dot(x, y.T, precision="highest"), (32, 16), F32),
        [BIG, normal(16, 256)],
    ),
    "dot_bf16": (
        inside(lambda x, y: jnp.dot(x, y, preferred_element_type=F32), (16, 16), F32),
        [H, G.T.copy()],
    ),
    "dot_fp8": (
        inside(lambda x, y: jnp.dot(x, y, preferred_element_type=F32), (16, 128), F32),
        [A.astype(ml_dtypes.float8_e4m3fn), normal(128, 128).astype(ml_dtypes.float8_e4m3fn)],
    ),
    "dot_int4_weights": (
        inside(lambda x, w: jnp.dot(x, w.astype(BF16), preferred_element_type=F32), (16, 128), F32),
        [H, W4],
    ),
    "nan": same(lambda a: jnp.nan_to_num(a * np.float32(np.nan)) + jnp.nanmax(a), A),
    "erf_inv": same(lambda a: lax.erf_inv(jnp.clip(a * 0.3, -0.9, 0.9)), A),
    "sum_two_axes": (
        inside(lambda x: x.reshape(4, 8, 256).sum((0, 2)).reshape(8, 1), (8, 1), F32),
        [BIG],
    ),
    "unrolled": same(lambda a: lax.fori_loop(0, 8, lambda i, c: c * 1.5 + i, a, unroll=True), A),
    "scalar_integers": (
        on_scalars,
        [np.repeat(EDGES, 9), np.tile(EDGES[EDGES != 0], 10)],
    ),
    "vector_integers": same(
        lambda a, b: lax.rem(a, b) ^ (a // b) ^ (a % b) ^ (a >> (b & 31)) ^ (a << (b & 31)),
        np.tile(np.repeat(EDGES, 9), 128)[: 88 * 128].reshape(88, 128),
        np.tile(np.tile(EDGES[EDGES != 0], 10), 128)[: 88 * 128].reshape(88, 128),
    ),
    "dot_int8_deep": (
        inside(lambda x, y: jnp.dot(x, y, preferred_element_type=jnp.int32), (16, 128), jnp.int32),
        [
            integers(16, 2500, dtype="int8", low=-128, high=127),
            integers(2500, 128, dtype="int8", low=-128, high=127),
        ],
    ),
    "while_inside": same(count_up, A),
    "switch_inside": same(lambda a: pick(a, 2), A),
    "cumulative": same(lambda a: lax.fori_loop(0, 4, lambda i, c: c * 2 + i, a), A),
    "select_scalar": same(lambda a: a * jnp.where(a[0, 0] > 0, 2.0, 3.0), A),
    "clamp": same(lambda a: jnp.clip(a, -0.5, 0.5), A),
}
