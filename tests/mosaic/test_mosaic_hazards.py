"""Faults that jax's interpret mode accepts and the interpreter of the artifact does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import mosaic_zoo
import numpy as np
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from mosaic_twin import execute, normal

from maxkernel.worker import mosaic

X = normal(64, 128)
ANY = pl.BlockSpec(memory_space=pl.ANY)
BLOCK = pl.BlockSpec((8, 128), lambda i: (i, 0))
SHAPE = jax.ShapeDtypeStruct(X.shape, X.dtype)
DMA = pltpu.SemaphoreType.DMA


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


def summed(semantics: str) -> Callable[[Any], Any]:
    """A running sum over row blocks, in scratch: right only when the blocks run in order."""

    def body(x: Any, o: Any, total: Any) -> None:
        @pl.when(pl.program_id(0) == 0)
        def _() -> None:
            total[...] = jnp.zeros_like(total)

        total[...] += x[...]
        o[...] = total[...]

    return lambda x: pl.pallas_call(
        body,
        grid=(8,),
        in_specs=[BLOCK],
        out_specs=BLOCK,
        out_shape=SHAPE,
        scratch_shapes=[pltpu.VMEM((8, 128), X.dtype)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=(semantics,)),
    )(x)


def test_axes_that_are_called_parallel_must_be() -> None:
    wanted = np.cumsum(X.reshape(8, 8, 128), 0).reshape(X.shape)
    for semantics in ("arbitrary", "parallel"):
        np.testing.assert_allclose(execute(summed(semantics), X)[0], wanted, rtol=1e-4, atol=1e-5)
    assert not np.isnan(execute(summed("arbitrary"), X, shuffle=3)[0]).any()
    assert np.isnan(execute(summed("parallel"), X, shuffle=3)[0]).any()
    honest = [normal(256, 256), normal(256, 256, seed=1)]
    plain, other = (execute(mosaic_zoo.matmul, *honest, shuffle=s)[0] for s in (None, 3))
    np.testing.assert_array_equal(plain, other)


def test_the_hardware_random_generator_is_not_guessed() -> None:
    def body(o: Any) -> None:
        pltpu.prng_seed(1)
        o[...] = pltpu.bitcast(pltpu.prng_random_bits(o.shape), jnp.int32)

    def call() -> Any:
        return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.int32))()

    with pytest.raises(mosaic.Unsupported, match=r"tpu\.prng"):
        execute(call)
