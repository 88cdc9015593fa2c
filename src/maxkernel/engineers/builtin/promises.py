"""What moves promise by a kernel's grid, its traffic and its profile: expected ln gains."""

from __future__ import annotations

import math

from maxkernel.targets import Target
from maxkernel.types import Evaluation, PallasCall
from maxkernel.types.search import Limit

SECOND_KERNEL = 4e-6
"""Seconds that a second kernel takes beyond its one step: its start, its first blocks, its results.
One trial on v5p (`benchmarks/search/tasks/matmul_long_k.py`, 16.5 to 13.8 us); for ranking only."""
FEWEST_STEPS = 4
"""Steps of a sum from which dividing it can pay: the last one is done apart."""


MASKED = 0.45
"""Of the time of a kernel with many blocks that skipping masked ones is expected to save where the
blocks are computed: a causal mask hides half of them."""
MASKED_TRAFFIC = 0.05
"""The same where the kernel waits for memory: the blocks still come."""


def skip_gain(evaluation: Evaluation, limit: Limit, target: Target) -> float:
    """Of not computing blocks that are wholly masked, by how many blocks there are in a row. With
    one block there is none to skip."""
    calls = evaluation.facts.pallas_calls if evaluation.facts is not None else ()
    blocks = max((call.grid[-1] for call in calls if len(call.grid) > 1), default=0)
    share = MASKED_TRAFFIC if limit == "hbm" else MASKED
    return -math.log1p(-share * (1 - 1 / blocks)) if blocks > 1 else 0.0


def split_gain(evaluation: Evaluation, limit: Limit, target: Target) -> float:
    """Of dividing sums between the cores of a chip: what an idle core could take over, less the
    second kernel with the last step and the traffic of partial sums. 0 where nothing is gained."""
    facts, time = evaluation.facts, evaluation.time
    if facts is None or time is None or target.cores == 1:
        return 0.0
    saved = max((_saved(call, evaluation, target) for call in facts.pallas_calls), default=0.0)
    return -math.log1p(-saved / time.seconds) if saved > 0 else 0.0


def _saved(call: PallasCall, evaluation: Evaluation, target: Target) -> float:
    """Seconds saved on one kernel whose innermost axis is a sum."""
    if len(call.grid) < 2 or min(call.grid) < 1 or call.grid[-1] < FEWEST_STEPS:
        return 0.0
    blocks, steps = math.prod(call.grid[:-1]), call.grid[-1]
    even = blocks / (math.ceil(blocks / target.cores) * target.cores)
    seconds = _seconds(evaluation)
    sums = 2 * target.cores * blocks * call.scratch_bytes / target.hbm_bandwidth
    return seconds * (1 - even - 1 / steps) - SECOND_KERNEL - sums


def _seconds(evaluation: Evaluation) -> float:
    """Time of the program's longest kernel; of all of it where it is not told apart."""
    program, time = evaluation.program, evaluation.time
    kernels = [op.seconds for op in program.ops if op.kind == "kernel"] if program else []
    return max(kernels) if kernels else time.seconds if time is not None else 0.0
