"""State from events: pure, and the same in every client.

An act that does not fit the state it meets (an answer to a stage that is no longer shown, an undo
of a decision that is not the last) changes nothing, so a decision taken twice is taken once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from maxkernel.errors import UsageError
from maxkernel.modes.pair.acts import (
    KIND,
    Act,
    Answer,
    Ask,
    Began,
    Bundled,
    EditPlan,
    Ended,
    Heard,
    Joined,
    Move,
    Note,
    Redo,
    Reject,
    SetApprove,
    Stop,
    Told,
    Undo,
    Wrote,
)
from maxkernel.modes.pair.state import (
    Bench,
    Card,
    Decision,
    Line,
    Proposal,
    Remark,
    State,
    bench_after,
)
from maxkernel.modes.pair.suggest import TITLES, suggest, waits
from maxkernel.store import Event

_ENDS = frozenset({"answer", "explain", "auto"})
"""Stages after which the word is the person's, whatever waits."""

_replace = msgspec.structs.replace


def fold(state: State, events: Iterable[Event]) -> State:
    """The state after further events."""
    for event in events:
        piece = event.kind == KIND and event.body.get("do") == "wrote"
        settled = state.settled if piece else event.id
        state = _replace(_step(state, event), revision=event.id, settled=settled)
    return state


def _step(state: State, event: Event) -> State:
    if event.kind == "opened":
        first = not state.revision
        state = _replace(state, driver=event.session)
        return _follow(state, event, runs=False) if first else state
    if event.kind != KIND:
        return state
    act = _decode(event)
    if act.key in state.keys:
        return state
    if act.key:
        state = _replace(state, keys=state.keys | {act.key})
    handler: Callable[[State, Event, Any], State] = _HANDLERS[type(act)]
    return handler(state, event, act)


def _decode(event: Event) -> Act:
    try:
        return msgspec.convert(event.body, Act, str_keys=True)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"event {event.id} of this run cannot be read: {error}",
            "a newer maxkernel wrote it; upgrade to read it",
        ) from error


def _ask(state: State, event: Event, act: Ask) -> State:
    if state.running:
        return state
    if act.stage == "answer":
        state = _say(state, event, "said", act.text)
    status = "open" if waits(act.stage, state.approve, follows=False) else "approved"
    return _replace(state, proposal=Proposal(event.id, act, status), stopping=False)


def _answer(state: State, event: Event, act: Answer) -> State:
    proposal = state.proposal
    if proposal is None or proposal.id != act.proposal or proposal.status != "open":
        return state
    why = f": {act.why}" if act.why else ""
    word = "yes" if act.approve else "no"
    state = _say(state, event, "decision", f"{TITLES[proposal.ask.stage]}: {word}{why}", act.by)
    if act.approve:
        return _replace(state, proposal=_replace(proposal, status="approved"))
    return _replace(state, proposal=None)


def _edit_plan(state: State, event: Event, act: EditPlan) -> State:
    if state.running:
        return state
    bench = state.bench
    old = bench.card(act.card)
    if old is not None and old.status == "open":
        card = _replace(old, plan=act.plan, by="person")
        cards = tuple(card if c.number == card.number else c for c in bench.cards)
    else:
        card = Card(len(bench.cards) + 1, act.plan, "person")
        cards = (*bench.cards, card)
    label = f"plan {card.number} edited" if old else f"plan {card.number} added"
    state = _decide(state, event, act.by, label, _replace(bench, cards=cards))
    ask = Ask(stage="implement", card=card.number)
    return _replace(state, proposal=Proposal(event.id, ask, follows=True))


def _reject(state: State, event: Event, act: Reject) -> State:
    if state.running:
        return state
    bench, why = state.bench, f": {act.why}" if act.why else ""
    card = bench.card(act.card)
    if act.design is not None and bench.rejected.get(act.design) != act.why:
        label = f"design {act.design} rejected{why}"
        bench = _replace(bench, rejected=bench.rejected | {act.design: act.why})
    elif card is not None and card.status != "rejected":
        label = f"plan {card.number} rejected{why}"
        gone = _replace(card, status="rejected", why=act.why)
        cards = tuple(gone if c.number == gone.number else c for c in bench.cards)
        bench = _replace(bench, cards=cards)
    else:
        return state
    return _follow(_decide(state, event, act.by, label, bench), event, runs=False)


def _note(state: State, event: Event, act: Note) -> State:
    notes = (*state.bench.notes, Remark(act.text, act.design))
    bench = _replace(state.bench, notes=notes)
    state = _push(state, event, "note", bench)
    return _say(state, event, "note", act.text, act.by, act.design)


def _move(state: State, event: Event, act: Move) -> State:
    if state.running or act.focus == state.bench.focus:
        return state
    bench = _replace(state.bench, focus=act.focus)
    label = f"to design {act.focus.design}"
    return _follow(_decide(state, event, act.by, label, bench), event, runs=False)


def _undo(state: State, event: Event, act: Undo) -> State:
    if state.running or not state.undo or state.undo[-1].id != act.of:
        return state
    last = state.undo[-1]
    taken = _replace(last, bench=state.bench)
    state = _replace(state, bench=last.bench, undo=state.undo[:-1], redo=(*state.redo, taken))
    state = _say(state, event, "decision", f"undone: {last.label}", act.by)
    return _follow(state, event, runs=False)


def _redo(state: State, event: Event, act: Redo) -> State:
    if state.running or not state.redo or state.redo[-1].id != act.of:
        return state
    last = state.redo[-1]
    back = _replace(last, bench=state.bench)
    state = _replace(state, bench=last.bench, redo=state.redo[:-1], undo=(*state.undo, back))
    state = _say(state, event, "decision", f"done again: {last.label}", act.by)
    return _follow(state, event, runs=False)


def _set_approve(state: State, event: Event, act: SetApprove) -> State:
    if act.approve == state.approve:
        return state
    state = _replace(state, approve=act.approve)
    return _say(state, event, "decision", f"approval: {act.approve}", act.by)


def _stop(state: State, event: Event, act: Stop) -> State:
    proposal = state.proposal
    if state.stopping or not state.running or proposal is None or proposal.id != act.proposal:
        return state
    return _say(_replace(state, stopping=True), event, "decision", "stop", act.by)


def _began(state: State, event: Event, act: Began) -> State:
    proposal = state.proposal
    if proposal is None or proposal.id != act.proposal or proposal.status == "open":
        return state
    title = TITLES[proposal.ask.stage]
    if proposal.status == "approved":
        state = _say(state, event, "stage", title, "team", proposal.ask.design)
    running = _replace(proposal, status="running", since=event.at, sign="", draft="")
    return _replace(state, proposal=running)


def _heard(state: State, event: Event, act: Heard) -> State:
    proposal = state.proposal
    if proposal is None or proposal.id != act.proposal:
        return state
    text = f"design {act.design}: {act.text}" if act.design is not None else act.text
    return _replace(state, proposal=_replace(proposal, sign=text))


def _wrote(state: State, event: Event, act: Wrote) -> State:
    proposal = state.proposal
    if proposal is None or proposal.id != act.proposal:
        return state
    draft = act.text if act.fresh else proposal.draft + act.text
    return _replace(state, proposal=_replace(proposal, writer=act.role, draft=draft))


def _ended(state: State, event: Event, act: Ended) -> State:
    proposal = state.proposal
    if proposal is None or proposal.id != act.proposal:
        return state
    stage = proposal.ask.stage
    state = _replace(state, worked=state.worked + act.seconds, proposal=None, stopping=False)
    design = act.focus.design if act.focus else proposal.ask.design
    bench = bench_after(state.bench, act)
    if bench != state.bench:
        state = _push(state, event, TITLES[stage], bench)
    if act.accepted:
        state = _replace(state, bundled=act.focus)
    if act.error:
        return _say(state, event, "problem", act.error, "team", design)
    state = _say(state, event, "result", act.text, "team", design)
    if stage == "accept":
        return state
    return _follow(state, event, runs=stage not in _ENDS)


def _joined(state: State, event: Event, act: Joined) -> State:
    return _replace(state, engine=event.session)


def _bundled(state: State, event: Event, act: Bundled) -> State:
    word = "is withdrawn" if act.focus is None else f"holds design {act.focus.design} again"
    return _say(_replace(state, bundled=act.focus), event, "result", f"the bundle {word}", "team")


def _told(state: State, event: Event, act: Told) -> State:
    return _say(state, event, "problem" if act.problem else "result", act.text, "team")


def _follow(state: State, event: Event, *, runs: bool) -> State:
    """Puts up the stage that follows. It runs by itself only after a stage that ran (`runs`)."""
    ask = suggest(state.bench)
    if ask is None:
        return _replace(state, proposal=None)
    waiting = not runs or waits(ask.stage, state.approve, follows=True)
    status = "open" if waiting else "approved"
    return _replace(state, proposal=Proposal(event.id, ask, status, follows=True))


def _decide(state: State, event: Event, by: str, label: str, bench: Bench) -> State:
    return _say(_push(state, event, label, bench), event, "decision", label, by)


def _push(state: State, event: Event, label: str, bench: Bench) -> State:
    decision = Decision(event.id, label, state.bench)
    return _replace(state, bench=bench, undo=(*state.undo, decision), redo=())


def _say(
    state: State, event: Event, kind: Any, text: str, by: str = "", design: int | None = None
) -> State:
    author = by or str(event.body.get("by", "")) or "team"
    line = Line(event.id, event.at, author, kind, text, design)
    return _replace(state, lines=(*state.lines, line))


_HANDLERS: dict[type[Any], Callable[[State, Event, Any], State]] = {
    Ask: _ask,
    Answer: _answer,
    EditPlan: _edit_plan,
    Reject: _reject,
    Note: _note,
    Move: _move,
    Undo: _undo,
    Redo: _redo,
    SetApprove: _set_approve,
    Stop: _stop,
    Began: _began,
    Heard: _heard,
    Wrote: _wrote,
    Ended: _ended,
    Bundled: _bundled,
    Told: _told,
    Joined: _joined,
}
