"""The interpreter of the artifact costs no more than interpret mode does."""

from __future__ import annotations

import time
from typing import Any

import mosaic_zoo
import pytest
from mosaic_twin import export, interpret, normal

from maxkernel.worker import mosaic

LIMIT = 2.0
"""Most seconds per second of interpret mode, for one check of a new kernel."""

CASES: dict[str, tuple[Any, list[Any]]] = {
    "rmsnorm": (
        mosaic_zoo.rmsnorm,
        [normal(512, 8192, dtype="bfloat16"), normal(8192, dtype="bfloat16")],
    ),
    "matmul": (mosaic_zoo.matmul, [normal(512, 512, dtype="bfloat16")] * 2),
    "flash": (mosaic_zoo.flash, [normal(4, 512, 128, dtype="bfloat16", seed=s) for s in range(3)]),
}


@pytest.mark.parametrize("name", CASES)
def test_a_first_check_is_no_slower_than_interpret_mode(name: str) -> None:
    function, arrays = CASES[name]
    artifact = export(function, arrays)
    start = time.perf_counter()
    mosaic.run(mosaic.load(artifact), arrays)
    mine = time.perf_counter() - start
    start = time.perf_counter()
    interpret(function, arrays)
    theirs = time.perf_counter() - start
    assert mine < LIMIT * theirs, f"{mine:.3f} s against {theirs:.3f} s"
