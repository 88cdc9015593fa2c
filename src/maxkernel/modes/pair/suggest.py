"""The state machine: which stage follows, what waits for a person, what a stage is in words."""

from __future__ import annotations

from maxkernel.modes.pair.acts import Approve, Ask, Stage
from maxkernel.modes.pair.state import Bench, Card

MAX_REPAIRS = 3
"""Repairs in a row that the session suggests before it turns to the next plan."""

TITLES: dict[Stage, str] = {
    "plan": "think up plans",
    "implement": "write a kernel",
    "edit": "take the edited kernel",
    "judge": "judge the kernel",
    "debug": "repair the kernel",
    "tune": "tune the constants",
    "profile": "profile the kernel",
    "explain": "explain the kernel",
    "answer": "answer",
    "auto": "let the loop run",
    "accept": "accept the kernel",
}


def suggest(bench: Bench) -> Ask | None:
    """The stage that follows from what is on the bench; None when the choice is the person's."""
    focus = bench.focus
    if focus is None or focus.design in bench.rejected:
        return _next_plan(bench)
    if focus.judged == "":
        return Ask(stage="judge", design=focus.design)
    if focus.judged == "refused":
        if focus.repairs < MAX_REPAIRS:
            return Ask(stage="debug", design=focus.design)
        return _next_plan(bench)
    if not focus.tuned:
        return Ask(stage="tune", design=focus.design)
    if not focus.profiled:
        return Ask(stage="profile", design=focus.design)
    return None


def waits(stage: Stage, approve: Approve, *, follows: bool) -> bool:
    """True when a stage needs a person's word before it runs.

    What a person typed in full (an edit, a question) is its own approval.
    """
    if stage in ("edit", "answer", "explain"):
        return False
    if approve == "all":
        return True
    chooses = stage in ("implement", "plan") and follows
    return chooses and approve == "plans"


def describe(ask: Ask, bench: Bench) -> str:
    """What a stage will do, who does it and what it may spend: shown before it runs."""
    card = bench.card(ask.card)
    where = f"design {ask.design}" if ask.design is not None else "the kernel"
    match ask.stage:
        case "plan":
            return "The planner reads the task, what was tried and your notes, and proposes plans."
        case "implement":
            return f"The implementer writes a kernel for {_plan_words(card)}. Nothing is judged."
        case "edit":
            return f"Your version of {where} becomes a new design."
        case "judge":
            return f"The judge captures, compiles, checks and times {where}. At most 1 evaluation."
        case "debug":
            return f"The debugger reads the failure of {where} and writes a repaired kernel."
        case "tune":
            limit = f"At most {ask.count} evaluations." if ask.count else "Half of what is left."
            return f"The tuner searches the constants of {where}. {limit}"
        case "profile":
            return f"The profiler says what limits {where}. Nothing is compiled."
        case "explain":
            lines = f", lines {ask.first} to {ask.last}" if ask.first else ""
            return f"The team explains {where}{lines}."
        case "answer":
            return "The team answers."
        case "auto":
            rounds = "1 round" if ask.count == 1 else f"{ask.count} rounds"
            return (
                f"The loop runs {rounds} without asking: plan, implement, judge, repair, tune, "
                "profile. At most the evaluations that the budget has left."
            )
        case "accept":
            return f"The judge checks {where} again on fresh inputs and writes the bundle."


def _next_plan(bench: Bench) -> Ask | None:
    """The best plan that nobody tried or rejected; new plans when there is none."""
    for card in bench.cards:
        if card.status == "open":
            return Ask(stage="implement", card=card.number)
    return Ask(stage="plan")


def _plan_words(card: Card | None) -> str:
    return f"plan {card.number} ({card.plan.strategy})" if card else "the plan"
