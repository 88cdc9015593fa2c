"""Kernels with slices, strides, aliases, scalars and odd windows."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from mosaic_twin import integers, normal
from mosaic_zoo import BF16, F32, like

ANY = pl.BlockSpec(memory_space=pl.ANY)


def looped(x: Any) -> Any:
    """Running sums by rows of eight: dynamic slices and a carried value."""
    rows, columns = x.shape

    def body(x_ref: Any, o_ref: Any) -> None:
        def step(i: Any, carry: Any) -> Any:
            part = x_ref[pl.ds(i * 8, 8), :]
            o_ref[pl.ds(i * 8, 8), :] = part + carry
            return carry + jnp.sum(part, axis=0, keepdims=True)

        lax.fori_loop(0, rows // 8, step, jnp.zeros((1, columns), x.dtype))

    return pl.pallas_call(body, out_shape=like(x))(x)


def strided(x: Any) -> Any:
    def body(x_ref: Any, o_ref: Any) -> None:
        o_ref[pl.ds(0, 16, stride=2), :] = x_ref[pl.ds(1, 16, stride=2), :]
        o_ref[pl.ds(1, 16, stride=2), :] = x_ref[pl.ds(0, 16, stride=2), :] * 2.0

    return pl.pallas_call(body, out_shape=like(x))(x)


def aliased(x: Any, y: Any) -> Any:
    def body(x_ref: Any, y_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] + y_ref[...]

    spec = pl.BlockSpec((8, 128), lambda i: (i, 0))
    return pl.pallas_call(
        body,
        grid=(2,),
        in_specs=[spec, spec],
        out_specs=spec,
        out_shape=like(x),
        input_output_aliases={0: 0},
    )(x, y)


def dynamic_grid(n: Any, x: Any) -> Any:
    def body(x_ref: Any, o_ref: Any) -> None:
        @pl.when(pl.program_id(0) == 0)
        def _() -> None:
            o_ref[...] = jnp.zeros_like(o_ref)

        last = pl.program_id(0) == pl.num_programs(0) - 1
        o_ref[...] += jnp.where(last, 2.0, 1.0) * x_ref[...]

    return pl.pallas_call(
        body,
        grid=(n,),
        in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i: (0, 0)),
        out_shape=jax.ShapeDtypeStruct((8, 128), x.dtype),
    )(x)


def elements(x: Any) -> Any:
    """Overlapping windows addressed by element."""

    def body(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[0:8, :] + x_ref[8:16, :]

    return pl.pallas_call(
        body,
        grid=(3,),
        in_specs=[pl.BlockSpec((pl.Element(16), pl.Element(128)), lambda i: (i * 8, 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct((24, 128), x.dtype),
    )(x)


def scalars(s: Any, x: Any) -> Any:
    """Scalars read from and written to SMEM."""

    def body(s_ref: Any, x_ref: Any, o_ref: Any, t_ref: Any) -> None:
        o_ref[...] = x_ref[...] * s_ref[0] + s_ref[1]
        t_ref[0] = s_ref[0] - s_ref[1]
        t_ref[1] = jnp.where(s_ref[0] > s_ref[1], s_ref[0], s_ref[1])

    smem = pl.BlockSpec(memory_space=pltpu.SMEM)
    return pl.pallas_call(
        body,
        in_specs=[smem, pl.BlockSpec(memory_space=pltpu.VMEM)],
        out_specs=[pl.BlockSpec(memory_space=pltpu.VMEM), smem],
        out_shape=[like(x), jax.ShapeDtypeStruct((2,), F32)],
    )(s, x)


def semaphores(x: Any) -> Any:
    def body(x_ref: Any, o_ref: Any, sem: Any) -> None:
        pl.semaphore_signal(sem, 2)
        pl.semaphore_wait(sem, 1)
        o_ref[...] = x_ref[...] + 1.0
        pl.semaphore_wait(sem, 1)

    return pl.pallas_call(body, out_shape=like(x), scratch_shapes=[pltpu.SemaphoreType.REGULAR])(x)


def recast(x: Any) -> Any:
    """A bf16 ref read as 32-bit words and written back through them."""

    def body(x_ref: Any, o_ref: Any, buf: Any) -> None:
        buf[...] = x_ref[...]
        words = buf.bitcast(jnp.uint32)
        words[0:4, :] = words[4:8, :]
        o_ref[...] = buf[...]

    return pl.pallas_call(body, out_shape=like(x), scratch_shapes=[pltpu.VMEM(x.shape, x.dtype)])(x)


def masked(x: Any) -> Any:
    def body(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = jnp.zeros_like(o_ref)
        pltpu.store(o_ref, x_ref[...], mask=x_ref[...] > 0)

    return pl.pallas_call(body, out_shape=like(x))(x)


def padded(x: Any) -> Any:
    """Windows by element that reach into virtual padding; only the middle is used."""

    def body(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[8:16] * 2.0

    window = (pl.Element(24, padding=(8, 8)), pl.Element(128))
    return pl.pallas_call(
        body,
        grid=(4,),
        in_specs=[pl.BlockSpec(window, lambda i: (i * 8, 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
        out_shape=like(x),
    )(x)


def ref_reshape(x: Any) -> Any:
    def body(x_ref: Any, o_ref: Any) -> None:
        parts = x_ref.reshape(4, 8, 128)
        o_ref[...] = parts[1] + parts[2]

    return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct((8, 128), F32))(x)


ZOO: dict[str, tuple[Any, list[Any]]] = {
    "fori_loop": (looped, [normal(64, 128)]),
    "strided": (strided, [normal(32, 128)]),
    "aliased": (aliased, [normal(16, 128), normal(16, 128, seed=1)]),
    "dynamic_grid": (dynamic_grid, [integers(low=3, high=4), normal(64, 128)]),
    "elements": (elements, [normal(32, 128)]),
    "smem": (scalars, [normal(2), normal(8, 128)]),
    "semaphores": (semaphores, [normal(8, 128)]),
    "masked_store": (masked, [normal(16, 128)]),
    "padded_elements": (padded, [normal(32, 128)]),
    "ref_reshape": (ref_reshape, [normal(32, 128)]),
    "recast": (recast, [normal(16, 128, dtype=BF16)]),
}
