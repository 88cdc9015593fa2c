"""Independent chains, best of n: no chain learns from another."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from maxkernel.search.options import Option
from maxkernel.search.policies.base import Standing

CHAINS = 4
"""Chains at a time; a chain that has nothing left to do makes room for the next plan."""


class Parallel:
    """Takes turns between the chains of the first plans; each follows its own best option."""

    mixes = False

    def choose(self, options: Sequence[Option], standing: Standing, rng: Random) -> Option | None:
        """The best option of the open chain that has had the fewest jobs."""
        plan = next((o for o in options if o.kind == "plan"), None)
        own = [o for o in options if o.kind != "plan"]
        chains = sorted({o.chain for o in own} | set(standing.running))[:CHAINS]
        jobs = {c: standing.running.get(c, 0) + _jobs(own, c) for c in chains}
        for chain in sorted(chains, key=lambda c: (jobs[c], c)):
            mine = [o for o in own if o.chain == chain]
            if mine:
                return max(mine, key=lambda o: o.worth(standing.best))
        return plan


def _jobs(options: Sequence[Option], chain: int) -> int:
    """Jobs that a chain has had, as far as its open options tell."""
    return max((o.jobs for o in options if o.chain == chain), default=0)
