"""The interpreter of the artifact agrees with jax's interpret mode of the source."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import mosaic_zoo
import mosaic_zoo_dma
import mosaic_zoo_memory
import mosaic_zoo_ops
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas.ops.tpu.flash_attention import flash_attention
from jax.experimental.pallas.ops.tpu.megablox.gmm import gmm
from jax.experimental.pallas.ops.tpu.ragged_paged_attention.kernel import ragged_paged_attention
from mosaic_twin import export, interpret, normal

from maxkernel.worker import mosaic

ZOO = mosaic_zoo.ZOO | mosaic_zoo_dma.ZOO | mosaic_zoo_memory.ZOO | mosaic_zoo_ops.ZOO
NO_TWIN = {"recast"}
"""jax's interpret mode does not have ref bitcasts."""


def compare(found: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    for mine, theirs in zip(found, wanted, strict=True):
        assert mine.dtype == theirs.dtype and mine.shape == theirs.shape
        if mine.dtype.kind in "iub":
            np.testing.assert_array_equal(mine, theirs)
            continue
        tolerance = 2e-2 if mine.dtype.itemsize < 4 else 2e-5
        np.testing.assert_allclose(
            mine.astype(np.float64), theirs.astype(np.float64), rtol=tolerance, atol=tolerance
        )


@pytest.mark.parametrize("name", sorted(set(ZOO) - NO_TWIN))
def test_same_as_interpret_mode(name: str) -> None:
    function, arrays = ZOO[name]
    program = mosaic.load(export(function, arrays))
    compare(mosaic.run(program, arrays), interpret(function, arrays))


def test_ref_bitcast_moves_packed_rows() -> None:
    function, (x,) = mosaic_zoo_memory.ZOO["recast"]
    (found,) = mosaic.run(mosaic.load(export(function, [x])), [x])
    wanted = x.copy()
    wanted[0:8] = x[8:16]
    np.testing.assert_array_equal(found.view(np.uint16), wanted.view(np.uint16))


def run(function: Any, *arrays: Any) -> np.ndarray:
    (found,) = mosaic.run(mosaic.load(export(function, arrays)), arrays)
    return found


def test_products_of_f32_may_be_rounded_like_the_mxu_does() -> None:
    def product(precision: str | None) -> Any:
        def body(x: Any, y: Any, o: Any) -> None:
            o[...] = jnp.dot(x[...], y[...], precision=precision)

        return lambda x, y: pl.pallas_call(
            body, out_shape=jax.ShapeDtypeStruct((16, 16), jnp.float32)
        )(x, y)

    x, y = normal(16, 128), normal(128, 16, seed=1)
    rough = mosaic.Options(f32_matmul="bf16")
    half = [a.astype("bfloat16").astype(np.float32) for a in (x, y)]
    for precision, wanted in ((None, half[0] @ half[1]), ("highest", x @ y)):
        program = mosaic.load(export(product(precision), [x, y]))
        (found,) = mosaic.run(program, [x, y], rough)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
        assert mosaic.gather_facts(program).default_f32_matmuls == (precision is None)


def test_dynamic_sizes_that_interpret_mode_refuses() -> None:
    x = normal(40, 128)
    np.testing.assert_array_equal(run(mosaic_zoo_dma.piped_ragged, x), x * 2)
    wanted = np.where(np.arange(40)[:, None] < 16, x, 0)
    rows = np.array([16], np.int32)
    np.testing.assert_array_equal(run(mosaic_zoo_dma.dynamic_copy, rows, x), wanted)


def test_attention_of_the_jax_library() -> None:
    q, k, v = (normal(1, 2, 256, 128, seed=s) for s in range(3))
    found = run(lambda *a: flash_attention(*a, causal=True, sm_scale=0.1), q, k, v)
    scores = np.where(np.tri(256, dtype=bool), np.einsum("bhqd,bhkd->bhqk", q, k) * 0.1, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = np.einsum("bhqk,bhkd->bhqd", weights / weights.sum(-1, keepdims=True), v)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_grouped_products_of_the_jax_library() -> None:
    sizes = np.array([100, 0, 28, 128], np.int32)
    x, y = normal(256, 128), normal(4, 128, 128)
    found = run(lambda *a: gmm(*a, tiling=(128, 128, 128)), x, y, sizes)
    group = np.repeat(np.arange(4), sizes)
    wanted = np.einsum("mk,mkn->mn", x, y[group])
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def attend(q: np.ndarray, kv: np.ndarray) -> np.ndarray:
    """Causal attention of the last tokens of a sequence; two query heads share a key head."""
    q, k, v = (a.astype(np.float32) for a in (q, kv[:, 0::2], kv[:, 1::2]))
    k, v = (np.repeat(a, 2, axis=1) for a in (k, v))
    scores = np.einsum("qhd,khd->hqk", q, k)
    scores = np.where(np.tri(len(q), len(k), len(k) - len(q), dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("hqk,khd->qhd", weights / weights.sum(-1, keepdims=True), v)


def test_paged_attention_of_the_jax_library() -> None:
    lengths = np.array([30, 50, 20, 0], np.int32)
    pages = np.arange(32, dtype=np.int32).reshape(4, 8)
    starts, count = np.array([0, 10, 40, 60, 60], np.int32), np.array([3], np.int32)
    q, kv = normal(64, 4, 128, dtype="bfloat16"), normal(32, 16, 4, 128, dtype="bfloat16")
    arrays = [q, kv, lengths, pages, starts, count]
    found = run(
        lambda *a: ragged_paged_attention(*a, num_kv_pages_per_block=4, num_queries_per_block=16),
        *arrays,
    )
    for s in range(3):
        mine = slice(starts[s], starts[s + 1])
        wanted = attend(q[mine], kv[pages[s]].reshape(-1, 4, 128)[: lengths[s]])
        np.testing.assert_allclose(found[mine].astype(np.float32), wanted, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("poison", mosaic.POISONS)
@pytest.mark.parametrize("name", ["rmsnorm_ragged", "flash", "accumulate", "dma", "elements"])
def test_poison_never_reaches_an_honest_result(name: str, poison: str) -> None:
    function, arrays = ZOO[name]
    program = mosaic.load(export(function, arrays))
    plain = mosaic.run(program, arrays)
    for dma in ("wait", "start"):
        options = mosaic.Options(poison=poison, dma=dma)
        for mine, theirs in zip(mosaic.run(program, arrays, options), plain, strict=True):
            np.testing.assert_array_equal(mine.view(np.uint8), theirs.view(np.uint8))
