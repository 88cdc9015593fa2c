"""Ranks the assignments of a design's constants by the analytic model, without judging any."""

from __future__ import annotations

import math

from maxkernel.judge import read_source
from maxkernel.search.context import Context
from maxkernel.search.decision import RANK_LIMIT
from maxkernel.search.graph import PORT
from maxkernel.search.inputs import Example
from maxkernel.search.job import Job, JobResult, Ranked
from maxkernel.search.spaces import nearest, strangers, widen
from maxkernel.tuner import estimate
from maxkernel.tuner.rank import fits
from maxkernel.tuner.space import Assignment
from maxkernel.types import Design, Failure, Intent, PallasCall, TunableSpace

UNDECLARED = 0.15
"""Expected ln loss of a constant that is none of those that the engineer thought of."""


def rank(context: Context, job: Job, design: Design, example: Example | None) -> JobResult:
    """Traces assignments and orders those that fit; equal ones count once.

    A design of which the model can say nothing else than of one that differs by rewrites is
    ranked as that one was, without a trace. What is the program of another design, or cannot be
    lowered, is found when its turn comes.
    """
    context.progress.stage("rank", design.id)
    prepared = context.prepared
    declared = read_source(design.source)
    if isinstance(declared, Failure):
        return JobResult(note=declared.message)
    declared = context.team.tuner.extend(prepared.info, design.plan, declared, prepared.target)
    space = widen(declared)
    if example is not None and _alike(context, space, example):
        known = example.constants
        return JobResult(space=space, ranked=known.ranked, captured=known.captured)
    return _outlined(context, job, design, declared, space)


def _outlined(
    context: Context, job: Job, design: Design, declared: TunableSpace, space: TunableSpace
) -> JobResult:
    looked_at = nearest(space, job.limit)
    ranked = _ordered(context, design.source, declared, looked_at)
    return JobResult(space=dict(space), ranked=tuple(ranked), captured=len(looked_at))


def first_constants(context: Context, intent: Intent, source: str) -> Assignment:
    """The constants to judge a new design with first: those of its intent that it declares.

    A port to another target with which they do not fit by the analytic model gets those that are
    ranked first.
    """
    wanted = fitting(intent.tunables, source)
    if not intent.move.startswith(PORT):
        return wanted
    prepared, declared = context.prepared, read_source(source)
    (found,) = context.outline(source, [wanted])
    fine = found.facts is not None and fits(found.facts, prepared.target)
    if fine or isinstance(declared, Failure):
        return wanted
    declared = context.team.tuner.extend(prepared.info, intent.plan, declared, prepared.target)
    ranked = _ordered(context, source, declared, nearest(widen(declared), RANK_LIMIT))
    return ranked[0].tunables if ranked else wanted


def fitting(tunables: Assignment, source: str) -> Assignment:
    """Those constants that `source` declares too, with choices of that type."""
    space = read_source(source)
    if isinstance(space, Failure):
        return {}
    return {
        name: value
        for name, value in tunables.items()
        if any(type(choice) is type(value) for choice in space.get(name, ()))
    }


def _ordered(
    context: Context, source: str, declared: TunableSpace, looked_at: list[Assignment]
) -> list[Ranked]:
    """Those of some assignments that fit, the fastest by estimate first; equal ones once."""
    prepared = context.prepared
    seen: set[str] = set()
    ranked: list[Ranked] = []
    outlines = context.outline(source, looked_at)
    for assignment, found in zip(looked_at, outlines, strict=True):
        if found.facts is None or found.digest in seen:
            continue
        seen.add(found.digest)
        if fits(found.facts, prepared.target):
            seconds = estimate(found.facts, prepared.info, prepared.target)
            seconds *= math.exp(UNDECLARED * strangers(declared, assignment))
            ranked.append(Ranked(assignment, seconds))
    return sorted(ranked, key=lambda r: r.estimate)


def _alike(context: Context, space: TunableSpace, example: Example) -> bool:
    """True when both have the same constants, and with one choice of them the same kernels as
    far as the analytic model looks."""
    if dict(space) != dict(example.constants.space):
        return False
    both = [context.run.evaluation(c) for c in (example.judged, example.rewritten)]
    facts = [e.facts for e in both if e is not None and e.facts is not None]
    if len(facts) < len(both):
        return False
    one, other = ([_seen(call) for call in f.pallas_calls] for f in facts)
    return bool(one) and one == other


def _seen(call: PallasCall) -> tuple[object, ...]:
    """What `estimate` and `fits` look at."""
    return call.grid, call.block_bytes, call.scratch_bytes, call.moved_bytes
