"""`/auto N`: rounds of the loop without a person: plan, implement, judge, repair, tune, profile."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import msgspec

from maxkernel.engineers.roles import SourceProfiler, Stopped
from maxkernel.search import Attempt, Context, expand, tune_design
from maxkernel.types import Design, Diagnosis, Evaluation, Outcome, Plan

PLANS_PER_ROUND = 4
"""Plans that one round tries with their defaults before the best of them is tuned."""


class Played(msgspec.Struct, frozen=True):
    """What the rounds came to."""

    plans: tuple[Plan, ...]
    outcomes: dict[int, Outcome]
    """By card number."""
    best: Evaluation | None
    design: int | None
    card: int | None
    text: str


def play(
    context: Context, key: str, rounds: int, cards: int, history: tuple[Outcome, ...]
) -> Played:
    """Plays at most `rounds` rounds; `cards` plans are on the table already.

    When the person stops it, what was found by then counts.
    """
    plans: list[Plan] = []
    outcomes: dict[int, Outcome] = {}
    best: Evaluation | None = None
    design = card = None
    played = 0
    for number in range(rounds):
        if context.candidates_left() < 1:
            break
        try:
            new = _plans(context, f"{key}/{number}", (*history, *outcomes.values()))
        except Stopped:
            break
        if not new:
            break
        played += 1
        first = cards + len(plans) + 1
        plans += new
        attempts = _attempts(context, f"{key}/{number}", new)
        for place, attempt in attempts.items():
            outcomes[first + place] = _outcome(context, attempt, attempt.evaluation, "")
        place = _fastest(attempts)
        if place is None:
            continue
        evaluation, outcome = _improve(context, f"{key}/{number}", attempts[place])
        outcomes[first + place] = outcome
        if _seconds(evaluation) < _seconds(best):
            best, design, card = evaluation, outcome.design, first + place
    return Played(tuple(plans), outcomes, best, design, card, _words(played, outcomes, best))


def diagnose(
    context: Context, key: str, design: Design, evaluation: Evaluation
) -> Diagnosis | None:
    """The profiler's word on a timed kernel; None where there is no schedule to read."""
    program, prepared, profiler = evaluation.program, context.prepared, context.team.profiler
    if program is None:
        return None
    context.progress.stage("profile", design.id)

    def read() -> Diagnosis:
        if isinstance(profiler, SourceProfiler):
            return profiler.diagnose_source(
                prepared.info, design.plan, design.source, program, prepared.target
            )
        return profiler.diagnose(prepared.info, program, prepared.target)

    return context.run.step(key, Diagnosis, read)


def _plans(context: Context, key: str, history: tuple[Outcome, ...]) -> list[Plan]:
    context.progress.stage("plan", None)
    prepared, planner = context.prepared, context.team.planner
    return context.run.step(
        f"{key}/plans",
        list[Plan],
        lambda: planner.plan(prepared.info, prepared.target, history)[:PLANS_PER_ROUND],
    )


def _attempts(context: Context, key: str, plans: list[Plan]) -> dict[int, Attempt]:
    """What became of the plans, by place; those that the person stopped are left out."""

    def attempt(place: int) -> Attempt | None:
        try:
            return expand(context, f"{key}/{place}", plans[place])
        except Stopped:
            return None

    with ThreadPoolExecutor(max_workers=len(plans)) as pool:
        found = list(pool.map(attempt, range(len(plans))))
    return {place: attempt for place, attempt in enumerate(found) if attempt is not None}


def _improve(context: Context, key: str, attempt: Attempt) -> tuple[Evaluation, Outcome]:
    design, evaluation = attempt.design, attempt.evaluation
    assert design is not None and evaluation is not None
    share = context.run.step(f"{key}/share", int, lambda: (context.candidates_left() + 1) // 2)
    diagnosis = None
    with suppress(Stopped):
        evaluation = tune_design(context, design, share, (evaluation,)).best or evaluation
        diagnosis = diagnose(context, f"{key}/profile", design, evaluation)
    return evaluation, _outcome(context, attempt, evaluation, diagnosis.text if diagnosis else "")


def _outcome(
    context: Context, attempt: Attempt, evaluation: Evaluation | None, bottleneck: str
) -> Outcome:
    design = attempt.design.id if attempt.design else None
    if evaluation is None:
        return Outcome(attempt.plan, design, None, None, failure=attempt.problem)
    failure = evaluation.failure
    if failure is not None:
        text = f"{failure.stage}/{failure.kind}: {failure.message}"
        return Outcome(attempt.plan, design, None, None, failure=text)
    return Outcome(
        plan=attempt.plan,
        design=design,
        seconds=_seconds(evaluation),
        speedup=context.judge.verdict(context.prepared, evaluation).speedup,
        tunables=evaluation.candidate.tunables,
        bottleneck=bottleneck,
    )


def _fastest(attempts: dict[int, Attempt]) -> int | None:
    accepted = [n for n, a in attempts.items() if a.evaluation and a.evaluation.accepted]
    return min(accepted, key=lambda n: _seconds(attempts[n].evaluation), default=None)


def _words(rounds: int, outcomes: dict[int, Outcome], best: Evaluation | None) -> str:
    word = "1 round" if rounds == 1 else f"{rounds} rounds"
    accepted = sum(o.seconds is not None for o in outcomes.values())
    found = f"best {_seconds(best) * 1e6:.4g} us" if best is not None else "nothing accepted"
    return f"{word}: {len(outcomes)} plans tried, {accepted} accepted; {found}"


def _seconds(evaluation: Evaluation | None) -> float:
    if evaluation is None or evaluation.time is None:
        return float("inf")
    return evaluation.time.seconds
