"""One expansion: a plan becomes a source, the judge looks at it, the debugger repairs it."""

from __future__ import annotations

import msgspec

from maxkernel.engineers.roles import NoAnswer
from maxkernel.judge import read_source
from maxkernel.search.context import Context
from maxkernel.search.ranking import first_constants
from maxkernel.tuner import Tuned, tune
from maxkernel.types import Candidate, Design, Evaluation, Failure, Intent, Plan

MAX_REPAIRS = 3
"""Repairs of one plan's source before the plan is given up."""

_ENVIRONMENT_KINDS = frozenset({"environment"})


class Repair(msgspec.Struct, frozen=True):
    """A debugger's answer; no design when the failure is beyond repair."""

    design: Design | None


class Attempt(msgspec.Struct, frozen=True):
    """What became of one plan: its last design and that design's first evaluation."""

    plan: Plan
    design: Design | None
    evaluation: Evaluation | None
    """None when the budget ended first, or nobody could write the kernel."""
    problem: str = ""
    """Why there is no evaluation."""


def expand(
    context: Context,
    key: str,
    plan: Plan,
    parents: tuple[int, ...] = (),
    given: Intent | None = None,
) -> Attempt:
    """Implements a plan and repairs it until the judge accepts it or nobody knows how.

    `key` names this expansion within the run, so that a resumed run finds its finished steps.
    `given`: what the plan comes with, its source included; nobody needs to implement it.
    """
    context.progress.stage("implement", None)
    try:
        design = context.run.step(
            f"{key}/0", Design, lambda: _implement(context, plan, parents, given)
        )
    except NoAnswer as error:
        return Attempt(plan, None, None, error.message)
    constants = first_constants(context, given, design.source) if given is not None else {}
    for attempt in range(1, MAX_REPAIRS + 2):
        context.run.add_design(design)
        found = context.evaluate(design, [Candidate(design.source, constants)])
        if not found:
            return Attempt(plan, design, None, "not judged: the budget ended")
        failure = found[0].failure
        if failure is None or failure.kind in _ENVIRONMENT_KINDS or attempt > MAX_REPAIRS:
            return Attempt(plan, design, found[0])
        repaired = _next(context, f"{key}/{attempt}", design, failure)
        if repaired is None:
            return Attempt(plan, design, found[0])
        design, constants = repaired, {}
    raise AssertionError("the loop above returns on its last round")


def tune_design(
    context: Context, design: Design, budget: int, known: tuple[Evaluation, ...]
) -> Tuned:
    """Tunes the constants of a design with at most `budget` new evaluations."""
    context.progress.stage("tune", design.id)
    declared = read_source(design.source)
    if isinstance(declared, Failure) or budget < 1:
        return Tuned(None, (), 0, 0)
    prepared = context.prepared
    space = context.team.tuner.extend(prepared.info, design.plan, declared, prepared.target)
    return tune(
        design.source,
        space,
        prepared.info,
        prepared.target,
        budget,
        context.capture,
        lambda candidates: context.evaluate(design, candidates),
        known,
    )


def _implement(
    context: Context, plan: Plan, parents: tuple[int, ...], given: Intent | None
) -> Design:
    if given is not None:
        return Design(given.id, plan, given.source, given.move, given.parents)
    prepared = context.prepared
    source = context.team.implementer.implement(prepared.info, plan, prepared.target)
    return context.new_design(plan, source, "plan", parents)


def _next(context: Context, key: str, design: Design, failure: Failure) -> Design | None:
    context.progress.stage("repair", design.id)
    prepared = context.prepared

    def repair() -> Repair:
        source = context.team.debugger.repair(
            prepared.info, design.plan, design.source, failure, prepared.target
        )
        if source is None or source == design.source:
            return Repair(None)
        move = f"repair {failure.kind}"
        return Repair(context.new_design(design.plan, source, move, (design.id,)))

    return context.run.step(key, Repair, repair).design
