"""Faults that jax's interpret mode accepts and the interpreter of the artifact does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from mosaic_twin import export, normal

from maxkernel.worker import mosaic

X = normal(64, 128)
ANY = pl.BlockSpec(memory_space=pl.ANY)
BLOCK = pl.BlockSpec((8, 128), lambda i: (i, 0))
SHAPE = jax.ShapeDtypeStruct(X.shape, X.dtype)
DMA = pltpu.SemaphoreType.DMA


def execute(function: Callable[..., Any], *arrays: Any, **options: Any) -> list[np.ndarray]:
    return mosaic.run(mosaic.load(export(function, arrays)), arrays, mosaic.Options(**options))


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


def shifted(by: int) -> Callable[[Any, Any], Any]:
    """Reads eight rows at a position that is an argument, through VMEM or through a DMA."""

    def body(at: Any, x: Any, o: Any) -> None:
        o[...] = x[pl.ds(at[0] + by, 8), :]

    return lambda at, x: pl.pallas_call(
        body,
        in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pltpu.VMEM)],
        out_shape=jax.ShapeDtypeStruct((8, 128), x.dtype),
    )(at, x)


def test_loads_stay_in_bounds() -> None:
    at = np.array([56], np.int32)
    np.testing.assert_array_equal(execute(shifted(0), at, X)[0], X[56:])
    with pytest.raises(mosaic.OutOfBounds, match="elements 57 to 64 of dimension 0"):
        execute(shifted(1), at, X)
    assert np.isnan(execute(shifted(1), at, X, check_bounds=False)[0]).all()


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


def test_blocks_lie_in_their_array() -> None:
    def call(at: Any, x: Any) -> Any:
        return pl.pallas_call(
            lambda at, x, o: o.__setitem__(Ellipsis, x[...]),
            grid_spec=pltpu.PrefetchScalarGridSpec(
                num_scalar_prefetch=1,
                grid=(2,),
                in_specs=[pl.BlockSpec((8, 128), lambda i, at: (at[i], 0))],
                out_specs=pl.BlockSpec((8, 128), lambda i, at: (i, 0)),
            ),
            out_shape=jax.ShapeDtypeStruct((16, 128), x.dtype),
        )(at, x)

    with pytest.raises(mosaic.OutOfBounds, match=r"block \(8, 0\) of input 0"):
        execute(call, np.array([0, 8], np.int32), X)


def test_unwritten_blocks_hold_poison() -> None:
    def half(x: Any) -> Any:
        body = lambda x, o: o.__setitem__(Ellipsis, x[...])  # noqa: E731
        return pl.pallas_call(body, grid=(4,), in_specs=[BLOCK], out_specs=BLOCK, out_shape=SHAPE)(
            x
        )

    (found,) = execute(half, X)
    assert (found[:32] == X[:32]).all() and np.isnan(found[32:]).all()


def test_code_that_hides_nan_is_seen_with_another_poison() -> None:
    def body(x: Any, o: Any, buf: Any) -> None:
        o[...] = jnp.where(jnp.isnan(buf[...]), 0.0, buf[...]) + x[...]

    def call(x: Any) -> Any:
        return pl.pallas_call(body, out_shape=SHAPE, scratch_shapes=[pltpu.VMEM(X.shape, X.dtype)])(
            x
        )

    assert (execute(call, X)[0] == X).all()
    for poison in ("large", "small"):
        assert (execute(call, X, poison=poison)[0] != X).all()


def test_blocks_beyond_the_edge_read_poison() -> None:
    def body(x: Any, o: Any) -> None:
        o[...] = jnp.broadcast_to(jnp.sum(x[...], axis=0, keepdims=True), o.shape)

    def call(x: Any) -> Any:
        return pl.pallas_call(body, grid=(2,), in_specs=[BLOCK], out_specs=BLOCK, out_shape=x)(x)

    (found,) = execute(lambda x: call(x), X[:12])
    assert np.isfinite(found[:8]).all() and np.isnan(found[8:]).all()


def test_a_block_left_and_revisited_has_lost_its_data() -> None:
    def body(x: Any, o: Any) -> None:
        @pl.when(pl.program_id(0) == 0)
        def _() -> None:
            o[...] = jnp.zeros_like(o)

        o[...] += x[...]

    def call(x: Any) -> Any:
        return pl.pallas_call(
            body,
            grid=(2, 2),
            in_specs=[pl.BlockSpec((8, 128), lambda i, j: (i * 2 + j, 0))],
            out_specs=pl.BlockSpec((8, 128), lambda i, j: (j, 0)),
            out_shape=jax.ShapeDtypeStruct((16, 128), x.dtype),
        )(x)

    assert np.isnan(execute(call, X[:32])[0]).all()


def test_fetching_what_an_alias_wrote_back_is_a_race() -> None:
    def call(x: Any) -> Any:
        return pl.pallas_call(
            lambda x, o: o.__setitem__(Ellipsis, x[...] + 1.0),
            grid=(4,),
            in_specs=[pl.BlockSpec((8, 128), lambda i: (jnp.maximum(i - 2, 0), 0))],
            out_specs=BLOCK,
            out_shape=SHAPE,
            input_output_aliases={0: 0},
        )(x)

    with pytest.raises(mosaic.Race, match="aliased"):
        execute(call, X)


def test_endless_loops_end() -> None:
    def body(x: Any, o: Any) -> None:
        o[...] = lax.while_loop(lambda c: c[0, 0] < 1e9, lambda c: c * 0.5, x[...])

    def call(x: Any) -> Any:
        return pl.pallas_call(body, out_shape=SHAPE)(x)

    with pytest.raises(mosaic.Exhausted, match="more than 1000"):
        execute(call, X, steps=1000)
    with pytest.raises(mosaic.Exhausted, match=r"0\.2 s"):
        execute(call, X, seconds=0.2)


def test_a_false_promise_to_the_compiler_is_an_error() -> None:
    def body(at: Any, x: Any, o: Any) -> None:
        o[...] = x[pl.ds(pl.multiple_of(at[0], 8), 8), :]

    def call(at: Any, x: Any) -> Any:
        return pl.pallas_call(
            body,
            in_specs=[
                pl.BlockSpec(memory_space=pltpu.SMEM),
                pl.BlockSpec(memory_space=pltpu.VMEM),
            ],
            out_shape=jax.ShapeDtypeStruct((8, 128), x.dtype),
        )(at, x)

    np.testing.assert_array_equal(execute(call, np.array([8], np.int32), X)[0], X[8:16])
    with pytest.raises(mosaic.BrokenPromise, match="9 was promised to be a multiple of 8"):
        execute(call, np.array([9], np.int32), X)


def test_the_hardware_random_generator_is_not_guessed() -> None:
    def body(o: Any) -> None:
        pltpu.prng_seed(1)
        o[...] = pltpu.bitcast(pltpu.prng_random_bits(o.shape), jnp.int32)

    def call() -> Any:
        return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.int32))()

    with pytest.raises(mosaic.Unsupported, match=r"tpu\.prng"):
        execute(call)
