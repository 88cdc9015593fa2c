"""The built-in planner: recognises families and orders their strategies by estimated time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from maxkernel.engineers.builtin import regions
from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.canon import canonicalise
from maxkernel.engineers.builtin.collapse import collapsed
from maxkernel.engineers.builtin.families import FAMILIES, GRAPH_FAMILIES
from maxkernel.engineers.builtin.loops import without_loops
from maxkernel.engineers.builtin.units import without_units
from maxkernel.engineers.roles import NoAnswer
from maxkernel.targets import Target
from maxkernel.types import Outcome, Plan, TaskInfo

Considered = tuple[list[Plan], list[str]]
"""All plans for a task, and why there are no others."""


class BuiltinPlanner:
    """Plans from the operator graph alone."""

    def __init__(self) -> None:
        self._last: tuple[TaskInfo, Target, Considered] | None = None
        """The task asked about last, and what was found: every round of a search asks again."""

    def plan(self, info: TaskInfo, target: Target, history: tuple[Outcome, ...]) -> list[Plan]:
        """Every strategy not tried yet that can be written, the fastest by estimate first.

        Raises NoAnswer with the reason when no family covers the task.
        """
        last = self._last
        if last is None or last[0] is not info or last[1] != target:
            self._last = last = info, target, _consider(info, target)
        plans, reasons = last[2]
        if not plans:
            raise NoAnswer(f"no built-in family covers this task: {'; '.join(reasons)}")
        tried = {_identity(outcome.plan) for outcome in history}
        return [plan for plan in plans if _identity(plan) not in tried]


def _consider(info: TaskInfo, target: Target) -> Considered:
    plans: list[Plan] = []
    reasons: list[str] = []
    info = without_units(info)
    flat = without_loops(info)
    try:
        program = canonicalise(flat)
    except Unsupported as why:
        reasons.append(str(why))
    else:
        for family in FAMILIES:
            make = partial(family.plans, flat, program, target)
            write = partial(family.implement, flat, program)
            plans += _written(family.name, make, write, target, reasons)
    for family in GRAPH_FAMILIES:
        make, write = partial(family.plans, info, target), partial(family.implement, info)
        plans += _written(family.name, make, write, target, reasons)
    plans += _collapsed(flat, target)
    if not plans:
        try:
            plans += regions.plans(flat, target)
        except Unsupported as why:
            reasons.append(f"not in parts: {why}")
    return sorted(plans, key=lambda plan: plan.expected_seconds or 0.0), reasons


def _written(
    name: str,
    make: Callable[[], list[Plan]],
    write: Callable[[Plan, Target], str],
    target: Target,
    reasons: list[str],
) -> list[Plan]:
    """A family's plans that can be written; `reasons` gets why others cannot."""
    found: list[Plan] = []
    try:
        made = make()
    except Unsupported as why:
        reasons.append(f"not {name}: {why}")
        return []
    for plan in made:
        try:
            write(plan, target)
        except Unsupported as why:
            reasons.append(f"not {name}, {plan.strategy}: {why}")
        else:
            found.append(plan)
    return found


def _collapsed(info: TaskInfo, target: Target) -> list[Plan]:
    """Plans for the program with sums over outputs taken into the weights, where it has some."""
    changed = collapsed(info)
    if changed is None:
        return []
    try:
        return regions.plans(changed, target, regions.COLLAPSED)
    except Unsupported:
        return []


def _identity(plan: Plan) -> tuple[str, str, str]:
    return plan.family, plan.strategy, repr(sorted(plan.options.items()))
