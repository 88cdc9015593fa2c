"""A client of a pairing session: reads its state, takes decisions. Any number may be open."""

from __future__ import annotations

import secrets
import threading
import time
from pathlib import Path

import msgspec

from maxkernel.errors import UsageError
from maxkernel.judge import Prepared
from maxkernel.modes.pair.acts import (
    KIND,
    Act,
    Answer,
    Approve,
    Ask,
    EditPlan,
    Move,
    Note,
    Redo,
    Reject,
    SetApprove,
    Stop,
    Undo,
)
from maxkernel.modes.pair.checks import bounded, checked, focus_of, require_idle
from maxkernel.modes.pair.facts import budget_of, find_design, focus_on
from maxkernel.modes.pair.fold import fold
from maxkernel.modes.pair.state import State
from maxkernel.search.job import Steer
from maxkernel.search.steer import say
from maxkernel.store import RunFile
from maxkernel.types import Plan

MAX_SOURCE_BYTES = 1 << 20
"""Bytes of an edited kernel; the judge reads no more either."""

_POLL_SECONDS = 0.1
_JOIN_SECONDS = 1.0
"""An engine that has just opened a run says within this time that it is one."""


class PairSession:
    """One client (a terminal, a browser tab's server). Thread-safe; writes decisions only.

    Every decision returns the state after it. `key` names a decision: a second one with the
    same key changes nothing, so that a form sent twice counts once.
    """

    def __init__(self, folder: Path, by: str) -> None:
        self.run = RunFile.read(folder)
        self.by = by
        self._lock = threading.Lock()
        self._state = State()
        self._prepared: Prepared | None = None

    @property
    def name(self) -> str:
        """The run's name: that of its folder."""
        return self.run.folder.name

    def close(self) -> None:
        """Closes the file; the session itself lives in it."""
        self.run.close()

    @property
    def state(self) -> State:
        """The state as of now."""
        with self._lock:
            self._state = fold(self._state, self.run.events(self._state.revision))
            return self._state

    def wait(self, revision: int, seconds: float) -> State:
        """The state as soon as it is newer than `revision`, or after `seconds`."""
        end = time.monotonic() + seconds
        while (state := self.state).revision <= revision and time.monotonic() < end:
            time.sleep(_POLL_SECONDS)
        return state

    @property
    def prepared(self) -> Prepared | None:
        """The traced task and its baseline; None until an engine has prepared it.

        Raises UsageError for a run that another version of maxkernel wrote in another form.
        """
        if self._prepared is None:
            try:
                self._prepared = self.run.recall("prepared", Prepared)
            except msgspec.ValidationError as error:
                raise UsageError(
                    f"{self.run.folder} was written by another version of maxkernel: {error}",
                    "read it with that version",
                ) from error
        return self._prepared

    def ask(self, ask: Ask, key: str = "") -> State:
        """Puts a stage up. Raises UsageError when it makes no sense now."""
        state = self.state
        if key and key in state.keys:
            return state
        require_idle(state)
        self._require_engine()
        return self._act(checked(self.run, self.prepared, state, ask), key)

    def answer(self, approve: bool, why: str = "", proposal: int | None = None) -> State:
        """A word on the stage that is shown (or on `proposal`: nothing happens if it has gone)."""
        state = self.state
        if proposal is None:
            if state.proposal is None or state.proposal.status != "open":
                raise UsageError("nothing waits for your word", "/help lists what you can do")
            proposal = state.proposal.id
        if approve:
            self._require_engine()
        return self._act(Answer(proposal=proposal, approve=approve, why=bounded(why)))

    def edit_plan(self, plan: Plan, card: int | None = None, key: str = "") -> State:
        """Changes a plan on the table, or adds one."""
        state = self.state
        require_idle(state)
        if card is not None and state.bench.card(card) is None:
            raise UsageError(f"there is no plan {card}")
        if not plan.family.strip() or not plan.strategy.strip():
            raise UsageError("a plan needs a family and a strategy")
        return self._act(EditPlan(plan=plan, card=card), key)

    def edit_kernel(self, source: str, design: int | None = None, key: str = "") -> State:
        """Makes an edited source the next design. It is judged like any other."""
        if len(source.encode(errors="replace")) > MAX_SOURCE_BYTES:
            raise UsageError(f"the kernel is larger than {MAX_SOURCE_BYTES >> 20} MiB")
        if not source.strip():
            raise UsageError("the kernel is empty")
        return self.ask(Ask(stage="edit", source=source, design=design), key)

    def reject(self, why: str, *, card: int | None = None, design: int | None = None) -> State:
        """Refuses a plan or a design (by default the one in focus)."""
        state = self.state
        require_idle(state)
        if card is None and design is None:
            design = focus_of(state).design
        if card is not None and state.bench.card(card) is None:
            raise UsageError(f"there is no plan {card}")
        if design is not None:
            find_design(self.run, design)
        return self._act(Reject(card=card, design=design, why=bounded(why)))

    def note(self, text: str, design: int | None = None, key: str = "") -> State:
        """Writes a remark that planners hear, those of a search that drives this run included."""
        if not text.strip():
            raise UsageError("the note is empty")
        if design is not None:
            find_design(self.run, design)
        if not (key and key in self.state.keys):
            say(self.run, Steer("hint", design or 0, bounded(text)))
        return self._act(Note(text=bounded(text), design=design), key)

    def move(self, design: int) -> State:
        """Turns to another design, at its best constants: the next change branches from there."""
        state = self.state
        require_idle(state)
        found = find_design(self.run, design)
        return self._act(Move(focus=focus_on(self.run, self.prepared, state.bench, found)))

    def undo(self, of: int | None = None) -> State:
        """Takes the last decision back; with `of`, only if that one is still the last."""
        state = self.state
        require_idle(state)
        if of is None:
            if not state.undo:
                raise UsageError("there is nothing to undo")
            of = state.undo[-1].id
        return self._act(Undo(of=of))

    def redo(self, of: int | None = None) -> State:
        """Restores the last decision taken back."""
        state = self.state
        require_idle(state)
        if of is None:
            if not state.redo:
                raise UsageError("there is nothing to redo")
            of = state.redo[-1].id
        return self._act(Redo(of=of))

    def set_approve(self, approve: Approve) -> State:
        """Changes what waits for a person's word."""
        return self._act(SetApprove(approve=approve))

    def set_budget(self, candidates: int | None, seconds: float | None = None) -> State:
        """New limits of the run; what was spent stays spent."""
        if candidates is not None and candidates < 1:
            raise UsageError(f"the budget allows {candidates} candidates; it needs at least 1")
        if seconds is not None and seconds <= 0:
            raise UsageError(f"the budget allows {seconds:g} seconds; it needs more than 0")
        old = budget_of(self.run)
        new = msgspec.structs.replace(
            old,
            candidates=old.candidates if candidates is None else candidates,
            seconds=old.seconds if seconds is None else seconds,
        )
        self.run.event("budget", budget=msgspec.to_builtins(new))
        return self.state

    def stop(self) -> State:
        """Tells the running stage to end as soon as it can."""
        state = self.state
        if state.proposal is None or not state.running:
            raise UsageError("nothing is running")
        return self._act(Stop(proposal=state.proposal.id))

    def _require_engine(self) -> None:
        """Raises UsageError while a search drives the run, which would not hear of a stage."""
        end = time.monotonic() + _JOIN_SECONDS
        while (state := self.state).driver != state.engine and self.run.driven():
            if time.monotonic() > end:
                raise UsageError(
                    "a search drives this run; stages wait until it has ended",
                    "stop it first; notes, pins and cuts reach it meanwhile",
                )
            time.sleep(_POLL_SECONDS)

    def _act(self, act: Act, key: str = "") -> State:
        named = msgspec.structs.replace(act, by=self.by, key=key or secrets.token_hex(8))
        self.run.event(KIND, **msgspec.to_builtins(named))
        return self.state
