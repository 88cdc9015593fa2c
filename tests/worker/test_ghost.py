"""Kernels that matter, kernels that only copy, and grids that fall short, on real artifacts."""

from collections.abc import Callable
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

from maxkernel.worker import ghost, mosaic
from maxkernel.worker.coverage import covered, uncovered
from maxkernel.worker.failures import Refused

X = np.random.default_rng(0).normal(size=(64, 128)).astype(np.float32)


def kernel(body: Callable[..., None], x: Any, blocks: int | None = None) -> Any:
    spec = pl.BlockSpec((16, 128), lambda i: (i, 0))
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    grid = (x.shape[0] // 16 if blocks is None else blocks,)
    return pl.pallas_call(body, grid=grid, in_specs=[spec], out_specs=spec, out_shape=shape)(x)


def double(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[...] * 2


def copy(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[...] + 0.0


def program(function: Callable[[Any], Any], rows: int = 64) -> mosaic.Program:
    shape = jax.ShapeDtypeStruct((rows, 128), jnp.float32)
    return mosaic.load(
        bytes(jax.export.export(jax.jit(function), platforms=["tpu"])(shape).serialize())
    )


PROGRAMS = {
    "one kernel": (lambda x: kernel(double, x), {0}, set[int]()),
    "a copy": (lambda x: kernel(copy, x) * 2, {0}, {0}),
    "one after the other": (lambda x: kernel(double, kernel(copy, x)), {0, 1}, {0}),
    "a zero from data": (lambda x: x + kernel(double, x) * (x[0, 0] > 1e9), set[int](), set[int]()),
    "one of two": (
        lambda x: jnp.where(x > 1e9, kernel(double, x), kernel(copy, x) + 1), {1}, {1},
    ),
    "a loop": (
        lambda x: jax.lax.fori_loop(0, 3, lambda _, y: kernel(double, y), x), {0}, set[int](),
    ),
    "NaN": (lambda x: kernel(double, x / 0 - x / 0) + 1, {0}, {0}),
}  # fmt: skip


@pytest.mark.parametrize("kept", [ghost.KEPT_BYTES, 0], ids=["recorded", "run anew"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_matters(name: str, kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ghost, "KEPT_BYTES", kept)
    function, matter, copies = PROGRAMS[name]
    loaded = program(function)
    recording = ghost.record(loaded, [X], mosaic.Options())
    assert recording.whole is bool(kept)
    assert ghost.mattering(loaded, [X], recording) == matter
    assert recording.copying == copies


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "uint8", "bool"])
def test_falsified_values_differ(dtype: str) -> None:
    for array in (np.zeros(8), np.ones(8), np.arange(8) % 2):
        typed = array.astype(jnp.dtype(dtype))
        assert ghost.falsified(typed).dtype == typed.dtype
        assert (ghost.falsified(typed) != typed).any()


def test_blocks_left_out_at_full_size_are_seen() -> None:
    short = program(lambda x: kernel(double, x, blocks=4), 128)
    right = program(lambda x: kernel(double, x), 64)
    assert covered(short.kernels[0]) == [0.5, 0.5]
    assert covered(right.kernels[0]) == [1.0, 1.0]
    with pytest.raises(Refused, match=r"only 50 % of the blocks of its output 0"):
        list(uncovered(short, right))
    assert list(uncovered(program(lambda x: kernel(double, x), 128), right)) == []
