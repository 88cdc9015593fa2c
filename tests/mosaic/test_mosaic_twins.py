"""The interpreter of the artifact agrees with jax's interpret mode of the source."""

from __future__ import annotations

import mosaic_zoo
import mosaic_zoo_memory
import mosaic_zoo_ops
import numpy as np
import pytest
from mosaic_twin import export, interpret

from maxkernel.worker import mosaic

ZOO = mosaic_zoo.ZOO | mosaic_zoo_memory.ZOO | mosaic_zoo_ops.ZOO
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
