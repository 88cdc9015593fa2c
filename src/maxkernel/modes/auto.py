"""The closed loop: plan, implement, judge, repair, tune, profile, plan again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import msgspec

from maxkernel.engineers.roles import BudgetSpent, NoAnswer
from maxkernel.modes.finish import Finish, Reason, finish
from maxkernel.search import Attempt, Context, expand, tune_design
from maxkernel.search.porting import ports
from maxkernel.types import Diagnosis, Evaluation, Intent, Outcome, Plan

PLANS_PER_ROUND = 4
"""Plans that are tried with default constants before the best of them is tuned."""

WORTH_TUNING = 1.25
"""Designs whose default constants come within this factor of the round's best are tuned too."""

GAIN = 0.005
"""Smallest relative gain of a round that counts as progress."""


class _Round(msgspec.Struct, frozen=True):
    number: int
    outcomes: tuple[Outcome, ...] = ()
    best: Evaluation | None = None
    design: int | None = None
    stale: int = 0


def run_auto(context: Context) -> Finish:
    """Runs until the budget, the roofline, or the end of ideas. Resumes where it was killed."""
    state = _Round(0)
    while True:
        reason = _stop(context, state)
        if reason is not None:
            return _end(context, state, reason)
        try:
            plans = _plan(context, state)
        except NoAnswer as error:
            context.run.event("no answer", role="planner", message=error.message)
            spent = isinstance(error, BudgetSpent)
            return _end(context, state, "budget" if spent else "no plan", error.message)
        given = () if state.number else ports(context.run)
        if not plans and not given:
            return _end(context, state, "no plan")
        state = _round(context, state, plans, given)


def _end(context: Context, state: _Round, reason: Reason, problem: str = "") -> Finish:
    """The end of the run; where no kernel was accepted, why not."""
    done = finish(context, reason, partial(_explain, context, state))
    if done.best is not None or done.explanation:
        return done
    failures = dict.fromkeys(outcome.failure for outcome in state.outcomes if outcome.failure)
    return msgspec.structs.replace(done, explanation="; ".join(failures) or problem)


def _stop(context: Context, state: _Round) -> Reason | None:
    if context.stopping():
        return "stopped"
    if context.candidates_left() < 1:
        return "budget"
    time, bound = state.best.time if state.best else None, context.prepared.bound
    if time is not None and bound.reached(time.seconds, context.budget.roofline):
        return "roofline"
    return "no gain" if state.stale >= context.budget.patience else None


def _plan(context: Context, state: _Round) -> list[Plan]:
    context.progress.stage("plan", state.design)
    prepared = context.prepared
    return context.run.step(
        f"plans/{state.number}",
        list[Plan],
        lambda: context.team.planner.plan(prepared.info, prepared.target, state.outcomes)[
            :PLANS_PER_ROUND
        ],
    )


def _round(context: Context, state: _Round, plans: list[Plan], given: tuple[Intent, ...]) -> _Round:
    """Tries every plan with its defaults and every port with its constants, then tunes the best
    of them."""
    attempts = _attempts(context, state, plans, given)
    promising = sorted(
        (a for a in attempts if a.evaluation is not None and a.evaluation.accepted), key=_seconds
    )
    outcomes: dict[int, Outcome] = {}
    best, best_design = state.best, state.design
    for place, attempt in enumerate(promising):
        worth = place == 0 or _seconds(attempt) <= WORTH_TUNING * _time(best)
        outcome, evaluation = _improve(context, state.number, attempt, tune=worth)
        outcomes[attempts.index(attempt)] = outcome
        if _time(evaluation) < _time(best):
            best, best_design = evaluation, outcome.design
    for place, attempt in enumerate(attempts):
        outcomes.setdefault(place, _refused(attempt))
    gained = _time(best) < _time(state.best) * (1 - GAIN)
    return _Round(
        number=state.number + 1,
        outcomes=(*state.outcomes, *(outcomes[place] for place in range(len(attempts)))),
        best=best,
        design=best_design,
        stale=0 if gained else state.stale + 1,
    )


def _attempts(
    context: Context, state: _Round, plans: list[Plan], given: tuple[Intent, ...]
) -> list[Attempt]:
    """One expansion each, side by side; ports first."""

    def port(intent: Intent) -> Attempt:
        return expand(context, f"port/{intent.id}", intent.plan, given=intent)

    def attempt(place: int) -> Attempt:
        return expand(context, f"design/{state.number}/{place}", plans[place])

    with ThreadPoolExecutor(max_workers=len(given) + len(plans)) as pool:
        ported = pool.map(port, given)
        written = pool.map(attempt, range(len(plans)))
        return [*ported, *written]


def _improve(
    context: Context, number: int, attempt: Attempt, *, tune: bool
) -> tuple[Outcome, Evaluation]:
    design, evaluation = attempt.design, attempt.evaluation
    assert design is not None and evaluation is not None
    if tune:
        share = context.run.step(
            f"share/{number}/{design.id}", int, lambda: (context.candidates_left() + 1) // 2
        )
        tuned = tune_design(context, design, share, (evaluation,))
        evaluation = tuned.best or evaluation
    diagnosis = _diagnose(context, f"profile/{number}/{design.id}", evaluation)
    verdict = context.judge.verdict(context.prepared, evaluation)
    outcome = Outcome(
        plan=attempt.plan,
        design=design.id,
        seconds=_time(evaluation),
        speedup=verdict.speedup,
        tunables=evaluation.candidate.tunables,
        bottleneck=diagnosis.text if diagnosis else "",
    )
    return outcome, evaluation


def _diagnose(context: Context, key: str, evaluation: Evaluation) -> Diagnosis | None:
    program, prepared = evaluation.program, context.prepared
    if program is None:
        return None
    context.progress.stage("profile", None)
    return context.run.step(
        key,
        Diagnosis,
        lambda: context.team.profiler.diagnose(prepared.info, program, prepared.target),
    )


def _refused(attempt: Attempt) -> Outcome:
    failure = attempt.evaluation.failure if attempt.evaluation else None
    text = f"{failure.stage}/{failure.kind}: {failure.message}" if failure else attempt.problem
    design = attempt.design.id if attempt.design else None
    return Outcome(attempt.plan, design, None, None, failure=text)


def _explain(context: Context, state: _Round, design: int) -> str:
    """The plan's reason, and the profiler's word on what limits the kernel now."""
    reasons = [d.plan.reason for d in context.run.designs() if d.id == design]
    limits = [o.bottleneck for o in state.outcomes if o.design == design and o.bottleneck]
    return "\n\n".join((*reasons, *limits))


def _seconds(attempt: Attempt) -> float:
    return _time(attempt.evaluation)


def _time(evaluation: Evaluation | None) -> float:
    if evaluation is None or evaluation.time is None:
        return float("inf")
    return evaluation.time.seconds
