"""DMA and semaphore faults that jax's interpret mode accepts and the interpreter does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from mosaic_twin import execute, normal

from maxkernel.worker import mosaic

X = normal(64, 128)
ANY = pl.BlockSpec(memory_space=pl.ANY)
BLOCK = pl.BlockSpec((8, 128), lambda i: (i, 0))
SHAPE = jax.ShapeDtypeStruct(X.shape, X.dtype)
DMA = pltpu.SemaphoreType.DMA


def manual(body: Callable[..., Any], *scratch: Any) -> Callable[[Any], Any]:
    """A kernel from HBM to a whole VMEM output, with scratch."""
    return lambda x: pl.pallas_call(
        body, in_specs=[ANY], out_shape=SHAPE, scratch_shapes=list(scratch), name="manual"
    )(x)


BUF = pltpu.VMEM(X.shape, X.dtype)


def test_reading_before_the_wait_is_a_race() -> None:
    def body(x: Any, o: Any, buf: Any, sem: Any) -> None:
        copy = pltpu.make_async_copy(x, buf, sem)
        copy.start()
        o[...] = buf[...]
        copy.wait()

    with pytest.raises(mosaic.Race, match=r"scratch 0 is read while the DMA started at .*:\d+"):
        execute(manual(body, BUF, DMA), X)
    late = execute(manual(body, BUF, DMA), X, races=False)[0]
    soon = execute(manual(body, BUF, DMA), X, races=False, dma="start")[0]
    assert np.isnan(late).all() and (soon == X).all()


def test_writing_under_a_dma_is_a_race() -> None:
    def body(x: Any, o: Any, buf: Any, sem: Any) -> None:
        copy = pltpu.make_async_copy(x, buf, sem)
        copy.start()
        buf[0:8, :] = jnp.zeros((8, 128))
        copy.wait()
        o[...] = buf[...]

    with pytest.raises(mosaic.Race, match="written while"):
        execute(manual(body, BUF, DMA), X)


def test_disjoint_parts_are_no_race() -> None:
    def body(x: Any, o: Any, buf: Any, sem: Any) -> None:
        copy = pltpu.make_async_copy(x.at[pl.ds(0, 32)], buf.at[pl.ds(0, 32)], sem)
        copy.start()
        buf[32:, :] = jnp.ones((32, 128))
        copy.wait()
        o[...] = buf[...]

    (found,) = execute(manual(body, BUF, DMA), X)
    np.testing.assert_array_equal(found, np.concatenate([X[:32], np.ones((32, 128), X.dtype)]))


@pytest.mark.parametrize("waits", [1, 2])
def test_one_semaphore_cannot_tell_two_dmas_apart(waits: int) -> None:
    def body(x: Any, o: Any, buf: Any, sem: Any) -> None:
        halves = [
            pltpu.make_async_copy(x.at[pl.ds(k, 32)], buf.at[pl.ds(k, 32)], sem) for k in (0, 32)
        ]
        for half in halves:
            half.start()
        for half in halves[:waits]:
            half.wait()
        o[0:32, :] = buf[0:32, :]
        for half in halves[waits:]:
            half.wait()
        o[32:, :] = buf[32:, :]

    if waits == 2:
        np.testing.assert_array_equal(execute(manual(body, BUF, DMA), X)[0], X)
    else:
        with pytest.raises(mosaic.Race):
            execute(manual(body, BUF, DMA), X)


def test_a_dma_never_waited_for_is_unfinished() -> None:
    def body(x: Any, o: Any, buf: Any, sem: Any) -> None:
        pltpu.make_async_copy(x, buf, sem).start()
        o[...] = jnp.zeros_like(o)

    with pytest.raises(mosaic.Unfinished, match=r"was never waited for|in flight"):
        execute(manual(body, BUF, DMA), X)


def test_a_scope_may_not_end_under_a_dma() -> None:
    def body(x: Any, o: Any, sem: Any) -> None:
        pl.run_scoped(lambda buf: pltpu.make_async_copy(x, buf, sem).start(), BUF)
        pltpu.make_async_copy(x, o, sem).wait()
        o[...] = jnp.zeros_like(o)

    with pytest.raises(mosaic.Unfinished, match="goes out of scope"):
        execute(manual(body, DMA), X)


def test_a_wait_without_a_dma_hangs() -> None:
    def body(x: Any, o: Any, buf: Any, sem: Any) -> None:
        pltpu.make_async_copy(x, buf, sem).wait()
        o[...] = buf[...]

    with pytest.raises(mosaic.Deadlock, match=r"hangs here \(kernel manual, tpu.wait_dma2"):
        execute(manual(body, BUF, DMA), X)


@pytest.mark.parametrize(("signals", "waits"), [(0, 1), (1, 0)])
def test_semaphores_balance(signals: int, waits: int) -> None:
    def body(x: Any, o: Any, sem: Any) -> None:
        if signals:
            pl.semaphore_signal(sem, signals)
        if waits:
            pl.semaphore_wait(sem, waits)
        o[...] = jnp.zeros_like(o)

    error = mosaic.Deadlock if waits else mosaic.Unfinished
    with pytest.raises(error):
        execute(manual(body, pltpu.SemaphoreType.REGULAR), X)


def test_an_input_may_not_be_written() -> None:
    def body(x: Any, o: Any, buf: Any, sem: Any) -> None:
        buf[...] = jnp.zeros_like(buf)
        pltpu.async_copy(buf, x, sem).wait()
        o[...] = buf[...]

    with pytest.raises(mosaic.WrittenInput, match="input 0"):
        execute(manual(body, BUF, DMA), X)


def test_dmas_stay_in_bounds() -> None:
    def body(at: Any, x: Any, o: Any, buf: Any, sem: Any) -> None:
        pltpu.async_copy(x.at[pl.ds(at[0], 8)], buf, sem).wait()
        o[...] = buf[...]

    def call(at: Any, x: Any) -> Any:
        return pl.pallas_call(
            body,
            in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), ANY],
            out_shape=jax.ShapeDtypeStruct((8, 128), x.dtype),
            scratch_shapes=[pltpu.VMEM((8, 128), x.dtype), DMA],
        )(at, x)

    with pytest.raises(mosaic.OutOfBounds):
        execute(call, np.array([60], np.int32), X)
