"""The stages, at work: each takes what was asked and says what it came to."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from maxkernel.engineers.roles import NoAnswer
from maxkernel.modes.pair.acts import Ended, Focus, Stage
from maxkernel.modes.pair.desk import Desk, history, outcome_of, verdict_words
from maxkernel.modes.pair.explain import answer_text, explain_text
from maxkernel.modes.pair.facts import evaluation_of, find_design, judged
from maxkernel.modes.pair.rounds import diagnose, play
from maxkernel.modes.pair.state import Bench
from maxkernel.schedule import digest
from maxkernel.search import tune_design
from maxkernel.types import Candidate, Design, Outcome, Plan

_replace = msgspec.structs.replace


def work(desk: Desk) -> Ended:
    """Runs the stage. What goes wrong in an engineer's hands is told, never raised."""
    try:
        return _STAGES[desk.ask.stage](desk)
    except NoAnswer as error:
        advice = f" ({error.advice})" if error.advice else ""
        return Ended(proposal=desk.proposal, error=f"no answer: {error.message}{advice}")


def _plan(desk: Desk) -> Ended:
    context, prepared = desk.context, desk.context.prepared
    plans = context.run.step(
        f"{desk.key}/plans",
        list[Plan],
        lambda: context.team.planner.plan(prepared.info, prepared.target, history(desk.bench)),
    )
    known = {(c.plan.family, c.plan.strategy, repr(c.plan.options)) for c in desk.bench.cards}
    new = [p for p in plans if (p.family, p.strategy, repr(p.options)) not in known]
    if not new:
        return Ended(
            proposal=desk.proposal,
            error="the planner has no further plan; /edit plan writes one of yours",
        )
    word = "1 plan" if len(new) == 1 else f"{len(new)} plans"
    return Ended(proposal=desk.proposal, plans=tuple(new), text=f"{word} on the table")


def _implement(desk: Desk) -> Ended:
    context, prepared = desk.context, desk.context.prepared
    card = desk.bench.card(desk.ask.card)
    assert card is not None

    def write() -> Design:
        source = context.team.implementer.implement(prepared.info, card.plan, prepared.target)
        return context.new_design(card.plan, source, "plan", ())

    design = context.run.step(f"{desk.key}/design", Design, write)
    context.run.add_design(design)
    lines = len(design.source.splitlines())
    return Ended(
        proposal=desk.proposal,
        text=f"design {design.id}: {lines} lines for plan {card.number}",
        focus=Focus(design.id, card=card.number),
        outcomes={card.number: Outcome(card.plan, design.id, None, None, failure="not judged")},
    )


def _edit(desk: Desk) -> Ended:
    context, bench = desk.context, desk.bench
    number = desk.ask.design if desk.ask.design is not None else _focused(bench)
    parent = find_design(context.run, number) if number is not None else None
    plan = parent.plan if parent else Plan("person", "a kernel of your own", "written by hand")
    parents = (parent.id,) if parent else ()
    design = context.run.step(
        f"{desk.key}/design",
        Design,
        lambda: context.new_design(plan, desk.ask.source, "edit by a person", parents),
    )
    context.run.add_design(design)
    card = bench.focus.card if bench.focus and parent else None
    return Ended(
        proposal=desk.proposal,
        text=f"design {design.id}: your kernel; it is judged like any other",
        focus=Focus(design.id, card=card),
    )


def _judge(desk: Desk) -> Ended:
    context, focus = desk.context, desk.focus
    found = context.evaluate(desk.design(), [Candidate(desk.design().source, focus.tunables)])
    if not found:
        return Ended(proposal=desk.proposal, error="not judged: stopped, or the budget is spent")
    evaluation = found[0]
    if evaluation.failure is not None and evaluation.failure.kind == "environment":
        text = f"not judged: {evaluation.failure.message}"
        return Ended(proposal=desk.proposal, error=f"{text} {evaluation.failure.advice}".strip())
    after = judged(focus, evaluation, context.prepared)
    return Ended(
        proposal=desk.proposal,
        text=verdict_words(focus.design, evaluation, after.speedup),
        focus=after,
        outcomes=outcome_of(desk, after, evaluation),
    )


def _debug(desk: Desk) -> Ended:
    context, prepared, focus = desk.context, desk.context.prepared, desk.focus
    broken, evaluation = desk.design(), evaluation_of(desk.context.run, desk.focus)
    if evaluation is None or evaluation.failure is None:
        return Ended(proposal=desk.proposal, error=f"design {broken.id} was not refused")
    failure = evaluation.failure

    def repair() -> str:
        source = context.team.debugger.repair(
            prepared.info, broken.plan, broken.source, failure, prepared.target
        )
        return source or ""

    source = context.run.step(f"{desk.key}/repair", str, repair)
    if source in ("", broken.source):
        text = f"the debugger knows no cure for {failure.stage}/{failure.kind}"
        return Ended(proposal=desk.proposal, error=f"{text}; /edit kernel mends it by hand")
    design = context.run.step(
        f"{desk.key}/design",
        Design,
        lambda: context.new_design(broken.plan, source, f"repair {failure.kind}", (broken.id,)),
    )
    context.run.add_design(design)
    return Ended(
        proposal=desk.proposal,
        text=f"design {design.id}: a repair of {failure.stage}/{failure.kind} in {broken.id}",
        focus=Focus(design.id, card=focus.card, repairs=focus.repairs + 1),
    )


def _tune(desk: Desk) -> Ended:
    context, focus = desk.context, desk.focus
    left = max(0, context.budget.candidates - len(context.run.evaluations()))
    share = context.run.step(
        f"{desk.key}/share", int, lambda: min(left, desk.ask.count or (left + 1) // 2)
    )
    known = tuple(e for d, e in context.run.evaluations() if d == focus.design)
    tuned = tune_design(context, desk.design(), share, known)
    if tuned.best is None:
        return Ended(proposal=desk.proposal, error=f"design {focus.design} was never accepted")
    after = _replace(judged(focus, tuned.best, context.prepared), tuned=True)
    constants = ", ".join(f"{k}={v}" for k, v in after.tunables.items()) or "its defaults"
    tried = f"{len(tuned.evaluations)} judged, {tuned.pruned} of {tuned.captured} dropped early"
    words = verdict_words(focus.design, tuned.best, after.speedup)
    return Ended(
        proposal=desk.proposal,
        text=f"{tried}; best: {constants}; {words}",
        focus=after,
        outcomes=outcome_of(desk, after, tuned.best),
    )


def _profile(desk: Desk) -> Ended:
    focus = desk.focus
    evaluation = evaluation_of(desk.context.run, focus)
    diagnosis = None
    if evaluation is not None:
        diagnosis = diagnose(desk.context, f"{desk.key}/profile", desk.design(), evaluation)
    if evaluation is None or diagnosis is None:
        text = "its schedule could not be read, so there is no profile"
        return Ended(proposal=desk.proposal, error=f"design {focus.design}: {text}")
    outcomes = outcome_of(desk, focus, evaluation, diagnosis.text)
    after = _replace(focus, profiled=True)
    text = diagnosis.text
    if evaluation.program is not None:
        prepared = desk.context.prepared
        bound, needed = prepared.bound.time.seconds, prepared.info.io_bytes
        lines = digest(evaluation.program, bound, desk.design().source, needed)
        text = "\n".join((text, "", *lines))
    return Ended(proposal=desk.proposal, text=text, focus=after, outcomes=outcomes)


def _explain(desk: Desk) -> Ended:
    text = explain_text(desk.context, desk.key, desk.focus, desk.ask)
    return Ended(proposal=desk.proposal, text=text)


def _answer(desk: Desk) -> Ended:
    focus, question = desk.bench.focus, desk.ask.text
    text = answer_text(desk.context, desk.key, focus, question, desk.search)
    return Ended(proposal=desk.proposal, text=text)


def _auto(desk: Desk) -> Ended:
    played = play(
        desk.context, desk.key, max(1, desk.ask.count), len(desk.bench.cards), history(desk.bench)
    )
    if not played.plans:
        return Ended(proposal=desk.proposal, error="the planner has no further plan")
    best = played.best
    focus = None
    if best is not None and played.design is not None:
        found = judged(Focus(played.design, card=played.card), best, desk.context.prepared)
        focus = _replace(found, tuned=True, profiled=True)
    return Ended(
        proposal=desk.proposal,
        text=played.text,
        plans=played.plans,
        outcomes=played.outcomes,
        focus=focus,
    )


def _accept(desk: Desk) -> Ended:
    context, focus = desk.context, desk.focus
    evaluation = evaluation_of(context.run, focus)
    assert evaluation is not None
    context.progress.stage("confirm", focus.design)
    failure = context.judge.confirm(context.prepared, evaluation.candidate).failure
    if failure is not None:
        context.run.event("unconfirmed", design=focus.design, failure=failure.message)
        return Ended(
            proposal=desk.proposal,
            error=f"design {focus.design} failed on fresh inputs: {failure.message}",
        )
    verdict = context.judge.verdict(context.prepared, evaluation)
    card = desk.bench.card(focus.card)
    limit = card.outcome.bottleneck if card and card.outcome else ""
    reason = "\n\n".join(t for t in (desk.design().plan.reason, limit) if t)
    where = desk.publish(context.run, verdict, focus.design, reason)
    return Ended(
        proposal=desk.proposal,
        text=f"design {focus.design} accepted, {verdict.word}; {where}",
        focus=focus,
        accepted=True,
    )


def _focused(bench: Bench) -> int | None:
    return bench.focus.design if bench.focus else None


_STAGES: dict[Stage, Callable[[Desk], Ended]] = {
    "plan": _plan,
    "implement": _implement,
    "edit": _edit,
    "judge": _judge,
    "debug": _debug,
    "tune": _tune,
    "profile": _profile,
    "explain": _explain,
    "answer": _answer,
    "auto": _auto,
    "accept": _accept,
}
