"""Moves of the built-in team: which rewrites apply to a design, and what its profile promises.

A move that was made is an option of the plan, so two orders of the same moves are one design, and
merging two designs is making the other one's moves here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from maxkernel.engineers import rewrites
from maxkernel.engineers.builtin import regions
from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.loops import without_loops
from maxkernel.engineers.builtin.promises import skip_gain, split_gain
from maxkernel.engineers.builtin.units import without_units
from maxkernel.targets import TARGETS, Target
from maxkernel.types import Design, Diagnosis, Evaluation, Move, Plan, TaskInfo, Tunable
from maxkernel.types.search import Limit

BORDERS = ("ends", "producers")
"""Options of a plan of regions that say where its kernels end and begin."""
MOST_SAVED = 0.5
"""Of a design's time that bytes saved at its kernels' borders are expected to save, at most."""
MERGE_GAIN = 0.02
"""Expected ln gain per move that a merge brings in."""

FURTHER = 0.3
"""Of a move's gain that is expected of changing its value later."""

_ISSUE: tuple[Limit, ...] = ("vector", "special", "load_store", "issue", "mxu", "unknown")
_ALU: tuple[Limit, ...] = ("vector", "special", "issue", "unknown")
_NARROW_ALU = frozenset({"v6e", "v7x"})
"""Generations whose vector units compute in bfloat16."""
_ONE_CORE = frozenset(name for name, target in TARGETS.items() if target.cores == 1)
"""Generations on which a grid's steps all run on one core, in order."""


@dataclass(frozen=True)
class Rewrite:
    """A rewrite as a move. `gains`: expected ln gain by what the design waits for; it is not
    proposed elsewhere. The figures are typical gains of trials on v6e, for ranking only.

    A design starts with the first of `values`; the others are moves from there.
    """

    name: str
    words: str
    values: tuple[Tunable, ...]
    apply: Callable[[str, Tunable], str | None]
    gains: Mapping[Limit, float]
    targets: frozenset[str] = field(default_factory=frozenset[str])
    """Generations that it is for; empty: all."""
    of_limit: float = 1.0
    """At most this share of what removing the limit would save (the diagnosis's `gain`)."""
    suits: Callable[[Evaluation], bool] = lambda _: True
    """False for programs in which it changes nothing that counts."""
    worth: Callable[[Evaluation, Limit, Target], float] | None = None
    """The expected ln gain by the program itself, in place of `gains`; not proposed at 0."""

    def gain(self, seen: Evaluation, diagnosis: Diagnosis | None, target: Target) -> float | None:
        """The expected ln gain of its first value; None where it is not to be proposed."""
        limit: Limit = diagnosis.limit if diagnosis is not None else "unknown"
        if (self.targets and target.name not in self.targets) or not self.suits(seen):
            return None
        if self.worth is not None:
            return self.worth(seen, limit, target) or None
        if limit not in self.gains:
            return None
        most = diagnosis.figures.get("gain", 1.0) if diagnosis is not None else 1.0
        return min(self.gains[limit], self.of_limit * most)


def _has_two_axes(evaluation: Evaluation) -> bool:
    """Two axes of some kernel's grid have more than one step, or the grid is not known."""
    calls = evaluation.facts.pallas_calls if evaluation.facts is not None else ()
    return not calls or any(sum(size != 1 for size in call.grid) > 1 for call in calls)


REWRITES = (
    Rewrite(
        "unroll", "unroll inner loops {} times", (4, 8, 2),
        lambda source, value: rewrites.unroll(source, int(value)), dict.fromkeys(_ISSUE, 0.04),
    ),
    Rewrite(
        "fetch_ahead", "fetch operands ahead by own copies, {} buffers each", (3, 4),
        lambda source, value: rewrites.fetch_ahead(source, int(value)),
        {**dict.fromkeys(_ISSUE, 0.005), "hbm": 0.02}, _ONE_CORE, of_limit=0.5,
    ),
    Rewrite(
        "whole_blocks", "one product per block, not several chunks", (True,),
        lambda source, _: rewrites.whole_blocks(source),
        {**dict.fromkeys((*_ISSUE, "hbm"), 0.05), "mxu": 0.01},
    ),
    Rewrite(
        "split_sum", "sum in {} parts side by side", (2,),
        lambda source, value: rewrites.split_sum(source, int(value)), {}, worth=split_gain,
    ),
    Rewrite(
        "skip_masked", "skip blocks that are wholly masked", (True,),
        lambda source, _: rewrites.skip_masked(source), {}, worth=skip_gain,
    ),
    Rewrite(
        "narrow_activations", "compute activations in bfloat16", (True,),
        lambda source, _: rewrites.narrow_activations(source),
        dict.fromkeys(_ALU, 0.03), _NARROW_ALU,
    ),
    Rewrite(
        "narrow_scratch", "keep scratch in bfloat16", (True,),
        lambda source, _: rewrites.narrow_scratch(source),
        {**dict.fromkeys(_ISSUE, 0.01), "hbm": 0.02, "load_store": 0.03},
    ),
    Rewrite(
        "divide_once", "divide once per row", (True,),
        lambda source, _: rewrites.divide_once(source), dict.fromkeys(_ALU, 0.01),
    ),
    Rewrite(
        "approximate_reciprocals", "divide by approximate reciprocals", (True,),
        lambda source, _: rewrites.approximate_reciprocals(source), dict.fromkeys(_ALU, 0.01),
    ),
    Rewrite(
        "swap_axes", "walk the grid in the other order", (True,),
        lambda source, _: rewrites.swap_axes(source), {"hbm": 0.05}, suits=_has_two_axes,
    ),
    Rewrite(
        "single_buffers", "one buffer for blocks that stay", (True,),
        lambda source, _: rewrites.single_buffers(source), {"hbm": 0.005},
    ),
)  # fmt: skip


class BuiltinMover:
    """Rewrites of source; they apply to kernels of any author."""

    def moves(
        self,
        info: TaskInfo,
        design: Design,
        evaluation: Evaluation,
        diagnosis: Diagnosis | None,
        target: Target,
    ) -> list[Move]:
        """Moves that change the source, by what the design waits for; the most promising first."""
        found = [
            move
            for rewrite in REWRITES
            if (gain := rewrite.gain(evaluation, diagnosis, target)) is not None
            for value, share in _steps(design, rewrite)
            for move in _move(design, rewrite, value, share * gain)
        ]
        found += _borders(info, design, evaluation, target)
        return sorted(found, key=lambda move: -move.gain)

    def merges(
        self, info: TaskInfo, design: Design, others: tuple[Design, ...], target: Target
    ) -> list[tuple[Design, Move]]:
        """This design with the other one's moves, where both follow the same strategy."""
        found: list[tuple[Design, Move]] = []
        for other in others:
            if other.plan.strategy == design.plan.strategy:
                move = _merge(design, other)
                if move is not None:
                    found.append((other, move))
        return found


def _steps(design: Design, rewrite: Rewrite) -> list[tuple[Tunable, float]]:
    """Values that can be tried next, and the share of the first one's gain to expect of them."""
    now = design.plan.options.get(rewrite.name)
    if now is None:
        return [(rewrite.values[0], 1.0)]
    return [(value, FURTHER) for value in rewrite.values if value != now]


def _move(design: Design, rewrite: Rewrite, value: Tunable, gain: float) -> list[Move]:
    """The move, or nothing where the rewrite does not apply."""
    source = rewrite.apply(design.source, value)
    if source is None or source == design.source:
        return []
    plan = _with(design.plan, {rewrite.name: value})
    return [Move(f"refine: {rewrite.words.format(value)}", plan, gain, source)]


def _borders(info: TaskInfo, design: Design, evaluation: Evaluation, target: Target) -> list[Move]:
    """Other borders between kernels and XLA that save bytes; the implementer writes them.

    Rewrites that were made are not made again: they are moves from there.
    """
    time, plan = evaluation.time, design.plan
    if plan.family != regions.NAME or time is None:
        return []
    plain = {name: plan.options[name] for name in BORDERS if name in plan.options}
    own = Plan(plan.family, plan.strategy, plan.reason, plain)
    try:
        moved = regions.moved_borders(without_loops(without_units(info)), own, target)
    except Unsupported:
        return []
    return [
        Move(f"refine: {m.words}", m.plan, -math.log1p(-min(m.saved / time.seconds, MOST_SAVED)))
        for m in moved
        if m.saved > 0
    ]


def _merge(design: Design, other: Design) -> Move | None:
    source, options, names = design.source, dict[str, Tunable](), list[str]()
    for rewrite in REWRITES:
        value = other.plan.options.get(rewrite.name)
        if value is None or rewrite.name in design.plan.options:
            continue
        changed = rewrite.apply(source, value)
        if changed is not None and changed != source:
            source = changed
            options[rewrite.name] = value
            names.append(rewrite.words.format(value))
    if not names:
        return None
    plan = _with(design.plan, options)
    return Move(f"merge: {', '.join(names)}", plan, MERGE_GAIN * len(names), source)


def _with(plan: Plan, options: dict[str, Tunable]) -> Plan:
    return Plan(plan.family, plan.strategy, plan.reason, plan.options | options, None)
