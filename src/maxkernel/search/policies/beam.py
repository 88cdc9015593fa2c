"""A beam: only the best few designs are worked on, in turns."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from maxkernel.search.options import Option
from maxkernel.search.policies.base import Standing

WIDTH = 4
"""Designs in the beam: 4 reach most of what 8 do in Autocomp's ablation (their paper)."""


class Beam:
    """Every design that has options, and every plan without code, competes by merit."""

    mixes = True

    def choose(self, options: Sequence[Option], standing: Standing, rng: Random) -> Option | None:
        """The best option of the beam's member that has had the fewest jobs."""
        plan = next((o for o in options if o.kind == "plan"), None)
        members: dict[int, list[Option]] = {}
        for option in options:
            if option.kind != "plan":
                members.setdefault(option.parent or option.node, []).append(option)
        if not members:
            return plan
        order = sorted(members, key=lambda m: (-max(o.base(standing.best) for o in members[m]), m))
        beam = order[:WIDTH]
        turn = min(beam, key=lambda m: (min(o.jobs for o in members[m]), order.index(m)))
        return max(members[turn], key=lambda o: o.worth(standing.best))
