"""Runs that a correct kernel does not notice: other poison, other timing, another order.

Unwritten memory may hold anything, a DMA may finish at any moment between its start and its
wait, and the positions of a parallel grid axis may run in any order on any core. A kernel whose
outputs change with any of these depends on luck.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from maxkernel.worker import mosaic
from maxkernel.worker.failures import refuse
from maxkernel.worker.programs import Outputs, execute, same_bits


def hazard_runs(
    program: mosaic.Program,
    inputs: Sequence[Any],
    expected: Outputs,
    seed: int,
    options: mosaic.Options,
) -> int:
    """Executes the program under every hazard; the number of runs. Raises Refused on a change."""
    runs = {
        "nothing at all: it is not deterministic": options,
        "what unwritten memory holds (large numbers)": replace(options, poison="large"),
        "what unwritten memory holds (small numbers)": replace(options, poison="small"),
        "what unwritten memory holds (zeros)": replace(options, poison="zero"),
        "when its DMAs move their bytes": replace(options, dma="start"),
        "the order in which parallel grid steps run": replace(options, shuffle=seed),
    }
    for what, other in runs.items():
        outputs = execute(program, inputs, other)
        for index, (mine, first) in enumerate(zip(outputs, expected, strict=True)):
            if not same_bits(mine, first):
                refuse(
                    "check",
                    "hazard",
                    f"output {index} changes with {what}",
                    "write every block and scratch before it is read, wait for every DMA before "
                    "its bytes are used, and mark axes that carry state as `arbitrary`",
                )
    return len(runs)
