"""What a decision must fulfil before it is written: the subject exists, the budget allows it."""

from __future__ import annotations

import msgspec

from maxkernel.errors import UsageError
from maxkernel.judge import Prepared
from maxkernel.modes.pair.acts import Ask, Focus
from maxkernel.modes.pair.facts import budget_of, find_design, focus_on
from maxkernel.modes.pair.state import State
from maxkernel.modes.pair.suggest import TITLES
from maxkernel.store import RunFile

MAX_TEXT = 20_000
"""Characters of one remark, question or reason."""

_NEEDS_KERNEL = frozenset({"judge", "debug", "tune", "profile", "explain", "accept"})
_NEEDS_ACCEPTED = frozenset({"tune", "profile", "accept"})


def checked(run: RunFile, prepared: Prepared | None, state: State, ask: Ask) -> Ask:
    """The stage with its subject filled in, once it is certain that it can run.

    Raises UsageError when it cannot.
    """
    bench = state.bench
    if ask.stage == "implement":
        number = ask.card
        if number is None:
            number = next((c.number for c in bench.cards if c.status == "open"), None)
        if bench.card(number) is None:
            what = f"there is no plan {number}" if number else "there is no plan left to try"
            raise UsageError(what, "/plan asks for plans, /edit plan writes one")
        return msgspec.structs.replace(ask, card=number)
    if ask.stage in _NEEDS_KERNEL:
        ask = _with_kernel(run, prepared, state, ask)
    if ask.stage in ("judge", "tune", "auto"):
        _require_budget(run, state)
    if ask.count < 0:
        raise UsageError(f"{ask.stage}: the number must be at least 1, not {ask.count}")
    if ask.stage == "answer" and not ask.text.strip():
        raise UsageError("the question is empty")
    return msgspec.structs.replace(ask, text=bounded(ask.text))


def focus_of(state: State) -> Focus:
    """The kernel that the session looks at; raises UsageError when there is none."""
    if state.bench.focus is None:
        raise UsageError("there is no kernel yet", "/plan, then /implement; or /edit kernel")
    return state.bench.focus


def require_idle(state: State) -> None:
    """Raises UsageError while a stage is at work."""
    if state.running and state.proposal is not None:
        raise UsageError(
            f"the team is busy: {TITLES[state.proposal.ask.stage]}", "wait for it, or stop it"
        )


def bounded(text: str) -> str:
    """The text without blanks around it; raises UsageError when it is too long."""
    if len(text) > MAX_TEXT:
        raise UsageError(f"the text has {len(text)} characters; the limit is {MAX_TEXT}")
    return text.strip()


def _with_kernel(run: RunFile, prepared: Prepared | None, state: State, ask: Ask) -> Ask:
    focus = state.bench.focus
    if ask.design is None:
        focus = focus_of(state)
    elif focus is None or focus.design != ask.design:
        found = find_design(run, ask.design)
        focus = focus_on(run, prepared, state.bench, found)
    if ask.stage in _NEEDS_ACCEPTED and focus.judged != "accepted":
        word = "was refused" if focus.judged else "was not judged yet"
        raise UsageError(f"design {focus.design} {word}", "/judge it, or /debug it, first")
    if ask.stage == "debug" and focus.judged != "refused":
        raise UsageError(f"design {focus.design} was not refused: there is nothing to repair")
    return msgspec.structs.replace(ask, design=focus.design)


def _require_budget(run: RunFile, state: State) -> None:
    budget, spent = budget_of(run), len(run.evaluations())
    if spent >= budget.candidates:
        raise UsageError(
            f"the budget is spent: {spent} of {budget.candidates} evaluations",
            "/budget N raises it",
        )
    if budget.seconds is not None and state.worked >= budget.seconds:
        raise UsageError(
            f"the budget is spent: the team worked {state.worked:.0f} of "
            f"{budget.seconds:.0f} seconds",
            "/budget N SECONDS raises it",
        )
