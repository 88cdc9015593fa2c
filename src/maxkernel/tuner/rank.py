"""An analytic model that ranks captured programs before anything is compiled."""

from __future__ import annotations

import math

from maxkernel.targets import Target
from maxkernel.types import ArtifactFacts, PallasCall, TaskInfo

STEP_SECONDS = 0.35e-6
"""Fixed cost of one grid step of a Pallas TPU pipeline (jax documentation, "about 0.35 us")."""

ACHIEVED_BANDWIDTH = 0.85
"""Fraction of peak HBM bandwidth that long contiguous DMAs reach (published v6e rows)."""


def footprint(call: PallasCall) -> int:
    """VMEM bytes of a kernel: two sets of blocks (double buffering) and its scratch."""
    return 2 * call.block_bytes + call.scratch_bytes


def fits(facts: ArtifactFacts, target: Target) -> bool:
    """False when some kernel cannot fit in VMEM, so that compiling it is a waste."""
    return all(footprint(call) <= target.vmem_bytes for call in facts.pallas_calls)


def estimate(facts: ArtifactFacts, info: TaskInfo, target: Target) -> float:
    """Seconds, for ranking only: filling the pipeline, then the slower of traffic and work.

    The fixed cost of grid steps hides behind the DMAs like arithmetic does. Where the traffic is
    not known (`moved_bytes` 0), the task's own inputs and outputs stand in.
    """
    bandwidth = ACHIEVED_BANDWIDTH * target.hbm_bandwidth
    moved = sum(call.moved_bytes for call in facts.pallas_calls) or info.io_bytes
    steps = sum(math.prod(max(1, n) for n in call.grid) for call in facts.pallas_calls)
    fill = sum(call.block_bytes for call in facts.pallas_calls) / bandwidth
    work = info.flops / target.bf16_flops + steps * STEP_SECONDS / target.cores
    return fill + max(moved / bandwidth, work)
