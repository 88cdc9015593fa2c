"""Kernels that move memory themselves: DMAs and pipelines."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from mosaic_twin import normal
from mosaic_zoo import BF16, F32, like

ANY = pl.BlockSpec(memory_space=pl.ANY)


def double_buffered(x: Any) -> Any:
    rows, columns = x.shape
    block, n = 64, rows // 64

    def body(x_hbm: Any, o_hbm: Any, buf: Any, out: Any, sem: Any, out_sem: Any) -> None:
        def fetch(i: Any, slot: Any) -> Any:
            return pltpu.make_async_copy(
                x_hbm.at[pl.ds(i * block, block)], buf.at[slot], sem.at[slot]
            )

        def send(i: Any, slot: Any) -> Any:
            return pltpu.make_async_copy(
                out.at[slot], o_hbm.at[pl.ds(i * block, block)], out_sem.at[slot]
            )

        fetch(0, 0).start()

        def step(i: Any, _: Any) -> Any:
            slot = i % 2

            @pl.when(i + 1 < n)
            def _() -> None:
                fetch(i + 1, 1 - slot).start()

            fetch(i, slot).wait()

            @pl.when(i >= 2)
            def _() -> None:
                send(i - 2, slot).wait()

            out[slot] = jnp.exp(buf[slot])
            send(i, slot).start()
            return 0

        lax.fori_loop(0, n, step, 0)
        send(n - 2, (n - 2) % 2).wait()
        send(n - 1, (n - 1) % 2).wait()

    return pl.pallas_call(
        body,
        in_specs=[ANY],
        out_specs=ANY,
        out_shape=like(x),
        scratch_shapes=[pltpu.VMEM((2, block, columns), x.dtype)] * 2
        + [pltpu.SemaphoreType.DMA((2,))] * 2,
    )(x)


def emitted(x: Any, y: Any) -> Any:
    columns = x.shape[1]

    def body(x_hbm: Any, y_hbm: Any, o_hbm: Any) -> None:
        def inner(x_ref: Any, y_ref: Any, o_ref: Any) -> None:
            o_ref[...] = x_ref[...] + y_ref[...]

        spec = pl.BlockSpec((64, columns), lambda i: (i, 0))
        pltpu.emit_pipeline(
            inner, grid=(x.shape[0] // 64,), in_specs=[spec, spec], out_specs=[spec]
        )(x_hbm, y_hbm, o_hbm)

    return pl.pallas_call(body, in_specs=[ANY, ANY], out_specs=ANY, out_shape=like(x))(x, y)


def scoped(x: Any) -> Any:
    def body(x_hbm: Any, o_ref: Any) -> None:
        def inner(buf: Any, sem: Any) -> None:
            pltpu.async_copy(x_hbm, buf, sem).wait()
            o_ref[...] = buf[...] + 1.0

        pl.run_scoped(inner, pltpu.VMEM(x.shape, x.dtype), pltpu.SemaphoreType.DMA)

    return pl.pallas_call(body, in_specs=[ANY], out_shape=like(x))(x)


def piped_matmul(x: Any, y: Any) -> Any:
    """A pipeline of three axes inside the kernel, with an accumulator outside it."""
    (m, k), n = x.shape, y.shape[1]

    def body(x_hbm: Any, y_hbm: Any, o_hbm: Any, total: Any) -> None:
        def inner(x_ref: Any, y_ref: Any, o_ref: Any) -> None:
            @pl.when(pl.program_id(2) == 0)
            def _() -> None:
                total[...] = jnp.zeros_like(total)

            total[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=F32)

            @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
            def _() -> None:
                o_ref[...] = total[...].astype(o_ref.dtype)

        pltpu.emit_pipeline(
            inner,
            grid=(m // 128, n // 128, k // 128),
            in_specs=[
                pl.BlockSpec((128, 128), lambda i, j, k: (i, k)),
                pl.BlockSpec((128, 128), lambda i, j, k: (k, j)),
            ],
            out_specs=[pl.BlockSpec((128, 128), lambda i, j, k: (i, j))],
        )(x_hbm, y_hbm, o_hbm)

    return pl.pallas_call(
        body,
        in_specs=[ANY, ANY],
        out_specs=ANY,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        scratch_shapes=[pltpu.VMEM((128, 128), F32)],
    )(x, y)


def piped_ragged(x: Any) -> Any:
    """An inner pipeline whose last block is cut off."""

    def body(x_hbm: Any, o_hbm: Any) -> None:
        def inner(x_ref: Any, o_ref: Any) -> None:
            o_ref[...] = x_ref[...] * 2.0

        spec = pl.BlockSpec((16, 128), lambda i: (i, 0))
        pltpu.emit_pipeline(inner, grid=(3,), in_specs=[spec], out_specs=[spec])(x_hbm, o_hbm)

    return pl.pallas_call(body, in_specs=[ANY], out_specs=ANY, out_shape=like(x))(x)


def dynamic_copy(n: Any, x: Any) -> Any:
    """A DMA of as many rows as an argument says."""

    def body(n_ref: Any, x_hbm: Any, o_ref: Any, buf: Any, sem: Any) -> None:
        buf[...] = jnp.zeros_like(buf)
        rows = pl.ds(0, n_ref[0])
        pltpu.async_copy(x_hbm.at[rows], buf.at[rows], sem).wait()
        o_ref[...] = buf[...]

    return pl.pallas_call(
        body,
        in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), ANY],
        out_shape=like(x),
        scratch_shapes=[pltpu.VMEM(x.shape, x.dtype), pltpu.SemaphoreType.DMA],
    )(n, x)


ZOO: dict[str, tuple[Any, list[Any]]] = {
    "dma": (double_buffered, [normal(256, 256)]),
    "emit_pipeline": (emitted, [normal(256, 128), normal(256, 128, seed=1)]),
    "run_scoped": (scoped, [normal(16, 128)]),
    "emit_pipeline_matmul": (
        piped_matmul,
        [normal(256, 256, dtype=BF16), normal(256, 128, dtype=BF16)],
    ),
}
