"""Comparison of two sizes of one source, and spot checks of a few blocks."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import mosaic_zoo
import mosaic_zoo_dma
import numpy as np
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from mosaic_twin import export, normal

from maxkernel.worker import mosaic
from maxkernel.worker.mosaic import blas


def differences(function: Any, full: list[Any], check: list[Any]) -> mosaic.Differences:
    return mosaic.same_up_to_sizes(
        mosaic.load(export(function, full)), mosaic.load(export(function, check))
    )


def test_one_source_is_one_program() -> None:
    found = differences(mosaic_zoo.matmul, [normal(512, 512)] * 2, [normal(256, 256)] * 2)
    assert found.same and any("grids (4, 4, 4)" in s for s in found.sizes)
    assert {(c.used_by, c.full, c.check) for c in found.constants} == {("arith.cmpi", "3", "1")}


def test_sizes_explain_constants() -> None:
    full = [normal(512, 1024), normal(1024)]
    found = differences(mosaic_zoo.rmsnorm, full, [normal(300, 256), normal(256)])
    assert found.same
    assert {c.used_by for c in found.constants} == {"vector.broadcast"}
    assert {(float(c.full), float(c.check)) for c in found.constants} == {(1024.0, 256.0)}


def test_numbers_that_are_equal_by_chance_do_not_matter() -> None:
    def program(x: Any, steps: Any) -> Any:
        last = jnp.minimum(steps[0], x.shape[0])
        return mosaic_zoo.softmax(x) * last, jnp.minimum(steps[1], 64)

    steps = np.array([1, 2], np.int32)
    found = differences(program, [normal(128, 128), steps], [normal(64, 128), steps])
    assert found.same
    assert any("128" in c.full and "64" in c.check for c in found.constants)


def test_how_many_are_chosen_is_a_size() -> None:
    def program(count: int) -> Any:
        return lambda x: mosaic_zoo.softmax(lax.top_k(jnp.tile(x, (1, 2)), count)[0])

    one, two = (mosaic.load(export(program(count), [normal(64, 128)])) for count in (128, 256))
    found = mosaic.same_up_to_sizes(two, one)
    assert found.same, found.structure


def test_another_body_at_full_size_is_another_program() -> None:
    def cheat(x: Any) -> Any:
        def body(x_ref: Any, o_ref: Any) -> None:
            if x.shape[0] > 100:
                o_ref[...] = x_ref[...]
            else:
                o_ref[...] = jnp.exp(x_ref[...])

        return pl.pallas_call(body, out_shape=mosaic_zoo.like(x))(x)

    found = differences(cheat, [normal(128, 128)], [normal(64, 128)])
    assert not found.same and "math.exp" in found.structure[0]


def test_another_outer_program_is_another_program() -> None:
    def cheat(x: Any) -> Any:
        y = mosaic_zoo.softmax(x)
        return y if x.shape[0] > 100 else y + 1.0

    assert not differences(cheat, [normal(128, 128)], [normal(64, 128)]).same


def test_a_shorter_loop_shows_as_a_constant() -> None:
    def cheat(x: Any) -> Any:
        rows = x.shape[0] if x.shape[0] < 100 else 16

        def body(x_ref: Any, o_ref: Any) -> None:
            def step(i: Any, total: Any) -> Any:
                return total + x_ref[pl.ds(i * 8, 8), :]

            o_ref[...] = lax.fori_loop(0, rows // 8, step, jnp.zeros((8, 128)))

        return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct((8, 128), x.dtype))(x)

    found = differences(cheat, [normal(128, 128)], [normal(64, 128)])
    assert found.same and {(c.full, c.check) for c in found.constants} == {("2", "8")}


CASES = {
    "rmsnorm": (mosaic_zoo.rmsnorm, [normal(1100, 256), normal(256)], 1),
    "matmul": (mosaic_zoo.matmul, [normal(512, 384), normal(384, 640)], 3),
    "flash": (mosaic_zoo.flash, [normal(4, 512, 128, seed=s) for s in range(3)], 4),
}


@pytest.mark.parametrize("name", CASES)
def test_blocks_stand_for_the_whole(name: str) -> None:
    function, arrays, per_block = CASES[name]
    program = mosaic.load(export(function, arrays))
    spot = mosaic.spot_check(program, arrays, kernel=0, blocks=2, seed=7)
    assert spot.steps == 2 * per_block < spot.total_steps
    (known,), (found,), (whole,) = spot.known, spot.outputs, mosaic.run(program, arrays)
    assert 0 < known.sum() < known.size
    np.testing.assert_array_equal(found[known], whole[known])


def test_operations_after_the_kernel_are_followed() -> None:
    def call(x: Any, y: Any) -> Any:
        return jnp.maximum(mosaic_zoo.matmul(x, y).T.reshape(-1, 64) + 1.0, 0.0)

    arrays = [normal(512, 128), normal(128, 512)]
    program = mosaic.load(export(call, arrays))
    spot = mosaic.spot_check(program, arrays, kernel=0, blocks=3, seed=1)
    (known,), (found,), (whole,) = spot.known, spot.outputs, mosaic.run(program, arrays)
    assert known.sum() == 3 * 128 * 128
    np.testing.assert_array_equal(found[known], whole[known])


def test_kernels_after_the_sampled_one_see_what_is_missing() -> None:
    def call(x: Any, y: Any) -> Any:
        return mosaic_zoo.softmax(mosaic_zoo.matmul(x, y))

    arrays = [normal(256, 128), normal(128, 128, seed=1)]
    program = mosaic.load(export(call, arrays))
    spot = mosaic.spot_check(program, arrays, kernel=0, blocks=1, seed=2)
    (known,), (found,), (whole,) = spot.known, spot.outputs, mosaic.run(program, arrays)
    assert known.sum() == 128 * 128
    np.testing.assert_array_equal(found[known], whole[known])


def test_work_skipped_at_full_size_is_found_by_sampling() -> None:
    def cheat(x: Any) -> Any:
        limit = min(x.shape[0] // 8, 8)

        def body(x_ref: Any, o_ref: Any) -> None:
            o_ref[...] = jnp.zeros_like(o_ref)

            @pl.when(pl.program_id(0) < limit)
            def _() -> None:
                o_ref[...] = x_ref[...] * 2.0

        spec = pl.BlockSpec((8, 128), lambda i: (i, 0))
        return pl.pallas_call(
            body,
            grid=(x.shape[0] // 8,),
            in_specs=[spec],
            out_specs=spec,
            out_shape=mosaic_zoo.like(x),
        )(x)

    small, large = normal(64, 128), normal(512, 128)
    assert differences(cheat, [large], [small]).same
    np.testing.assert_array_equal(
        mosaic.run(mosaic.load(export(cheat, [small])), [small])[0], small * 2
    )
    spot = mosaic.spot_check(
        mosaic.load(export(cheat, [large])), [large], kernel=0, blocks=6, seed=5
    )
    assert (spot.outputs[0] != large * 2)[spot.known[0]].any()


def carried(x: Any) -> Any:
    """Running column sums over row blocks: scratch carries from one block to the next."""

    def body(x_ref: Any, o_ref: Any, total: Any) -> None:
        @pl.when(pl.program_id(1) == 0)
        def _() -> None:
            total[...] = jnp.zeros_like(total)

        total[...] += jnp.sum(x_ref[...], axis=1)
        o_ref[...] = jnp.broadcast_to(total[...][:, None], o_ref.shape)

    spec = pl.BlockSpec((1, 8, 128), lambda h, i: (h, i, 0))
    return pl.pallas_call(
        body,
        grid=(x.shape[0], x.shape[1] // 8),
        in_specs=[spec],
        out_specs=spec,
        out_shape=mosaic_zoo.like(x),
        scratch_shapes=[pltpu.VMEM((1, 128), x.dtype)],
    )(x)


def test_a_carried_state_brings_in_the_steps_before() -> None:
    x = normal(3, 64, 128)
    program = mosaic.load(export(carried, [x]))
    exe = program.executable(0, mosaic.Options(track=True))
    part = mosaic.run_blocks(exe, 0, [(1, 5, 0)], [x])
    assert part.steps == 6
    (place,) = part.regions
    np.testing.assert_array_equal(part.outputs[0][place], mosaic.run(program, [x])[0][place])


def delayed(x: Any) -> Any:
    """Every step writes what the step before it kept: no block stands on its own."""

    def body(x_ref: Any, o_ref: Any, kept: Any) -> None:
        o_ref[...] = jnp.where(pl.program_id(0) > 0, kept[...], 0.0)
        kept[...] = x_ref[...] * 2.0

    last = x.shape[0] // 8 - 1
    return pl.pallas_call(
        body,
        grid=(last + 2,),
        in_specs=[pl.BlockSpec((8, 128), lambda i: (jnp.minimum(i, last), 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i: (jnp.maximum(i - 1, 0), 0)),
        out_shape=mosaic_zoo.like(x),
        scratch_shapes=[pltpu.VMEM((8, 128), x.dtype)],
    )(x)


def test_a_state_along_the_whole_grid_is_run_once_for_all_blocks() -> None:
    x = normal(128, 128)
    program = mosaic.load(export(delayed, [x]))
    exe = program.executable(0, mosaic.Options(track=True))
    part = mosaic.run_blocks(exe, 0, [(3, 0), (9, 0), (11, 0)], [x])
    assert part.steps == 13
    for place in part.regions:
        np.testing.assert_array_equal(part.outputs[0][place], 2.0 * x[place])


def hidden_state(where: str) -> Any:
    """Counts its steps in another output or in an input block, and stops working after eight."""

    def body(n_ref: Any, x_ref: Any, o_ref: Any, c_ref: Any) -> None:
        counter = n_ref if where == "input" else c_ref

        @pl.when(pl.program_id(0) == 0)
        def _() -> None:
            counter[...] = jnp.zeros_like(counter)

        counter[...] += 1.0
        if where == "input":
            c_ref[...] = counter[...]
        o_ref[...] = jnp.where(counter[...] <= 8, x_ref[...], 0.0)

    block, fixed = (
        pl.BlockSpec((8, 128), lambda i: (i, 0)),
        pl.BlockSpec((8, 128), lambda i: (0, 0)),
    )
    return lambda n, x: pl.pallas_call(
        body,
        grid=(x.shape[0] // 8,),
        in_specs=[fixed, block],
        out_specs=[block, fixed],
        out_shape=[mosaic_zoo.like(x), mosaic_zoo.like(n)],
    )(n, x)


@pytest.mark.parametrize("where", ["input", "output"])
def test_state_kept_outside_scratch_is_no_way_out(where: str) -> None:
    arrays = [np.zeros((8, 128), np.float32), normal(256, 128)]
    program = mosaic.load(export(hidden_state(where), arrays))
    exe = program.executable(0, mosaic.Options(track=True))
    part = mosaic.run_blocks(exe, 0, [(20, 0)], arrays)
    assert part.steps == 21 and not part.outputs[0][part.regions[0]].any()


def test_which_steps_write_a_block() -> None:
    function, arrays, _ = CASES["matmul"]
    program = mosaic.load(export(function, arrays))
    table = mosaic.output_blocks(program.executable(0, mosaic.Options()), 0, arrays)
    assert table.writing((2, 1)).tolist() == [[2, 1, k] for k in range(3)]
    assert len(table.distinct()) == 20


def test_outputs_without_windows_cannot_be_sampled() -> None:
    function, arrays = mosaic_zoo_dma.ZOO["dma"]
    program = mosaic.load(export(function, arrays))
    with pytest.raises(mosaic.Unsupported, match="by the kernel's own DMAs"):
        mosaic.spot_check(program, arrays, kernel=0, blocks=1, seed=0)


def test_halves_of_a_large_product_are_the_same_on_any_machine() -> None:
    a, b = normal(512, 2048), normal(2048, 1024, seed=1)
    assert 2 * a.size * b.shape[1] >= blas.LARGE
    with blas.one_thread():
        found = blas.product(a, b)
        halves = np.concatenate([a[:256] @ b, a[256:] @ b])
    np.testing.assert_array_equal(found, halves)
