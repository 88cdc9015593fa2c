"""The state of a pairing session, as every client sees it."""

from __future__ import annotations

from typing import Literal

import msgspec

from maxkernel.modes.pair.acts import Approve, Ask, Ended, Focus
from maxkernel.types import Outcome, Plan


class Card(msgspec.Struct, frozen=True):
    """One plan on the table."""

    number: int
    plan: Plan
    by: str
    """`team` or `person`."""
    status: Literal["open", "tried", "rejected"] = "open"
    why: str = ""
    """Why it was rejected."""
    outcome: Outcome | None = None


class Remark(msgspec.Struct, frozen=True):
    """A person's note."""

    text: str
    design: int | None = None


class Bench(msgspec.Struct, frozen=True):
    """What decisions change, and what undo restores. Facts (designs, verdicts) stay."""

    cards: tuple[Card, ...] = ()
    focus: Focus | None = None
    accepted: Focus | None = None
    rejected: dict[int, str] = {}
    """Designs that the person refused, and why."""
    notes: tuple[Remark, ...] = ()

    def card(self, number: int | None) -> Card | None:
        """The plan of that number."""
        return next((card for card in self.cards if card.number == number), None)


class Proposal(msgspec.Struct, frozen=True):
    """A stage that was asked for or that follows: shown, then approved, then run."""

    id: int
    """Id of the event that brought it up."""
    ask: Ask
    status: Literal["open", "approved", "running"] = "open"
    follows: bool = False
    """True when the session suggests it; nobody asked."""
    since: float = 0.0
    """When the engine began it, Unix time."""
    sign: str = ""
    """The last sign of life while it runs."""
    writer: str = ""
    """The role whose model is writing an answer."""
    draft: str = ""
    """What it has written so far."""


class Decision(msgspec.Struct, frozen=True):
    """An undoable decision and what was on the bench before it (or, undone, after it)."""

    id: int
    label: str
    bench: Bench


class Line(msgspec.Struct, frozen=True):
    """One line of the conversation."""

    id: int
    at: float
    by: str
    """`terminal`, `browser` (a person), or `team`."""
    kind: Literal["said", "note", "decision", "stage", "result", "problem"]
    text: str
    design: int | None = None


class State(msgspec.Struct, frozen=True):
    """Everything about a session; a fold over the run file's events."""

    revision: int = 0
    """Id of the last event that this state knows."""
    settled: int = 0
    """Id of the last one that was more than another piece of an answer under way."""
    approve: Approve = "all"
    bench: Bench = Bench()
    proposal: Proposal | None = None
    stopping: bool = False
    """The running stage was told to stop."""
    undo: tuple[Decision, ...] = ()
    redo: tuple[Decision, ...] = ()
    lines: tuple[Line, ...] = ()
    bundled: Focus | None = None
    """The kernel that the run's bundle holds, as far as this session wrote it."""
    worked: float = 0.0
    """Seconds that finished stages took."""
    keys: frozenset[str] = frozenset()
    driver: int = 0
    """Session number of the process that drove the run last."""
    engine: int = 0
    """Session number of the last pairing engine; a search drives where the two differ."""

    @property
    def running(self) -> bool:
        """A stage is at work, or about to."""
        return self.proposal is not None and self.proposal.status != "open"


def bench_after(bench: Bench, act: Ended) -> Bench:
    """The bench with what a stage came to."""
    number = len(bench.cards)
    added = tuple(Card(number + n, plan, "team") for n, plan in enumerate(act.plans, 1))
    cards = tuple(
        msgspec.structs.replace(card, status="tried", outcome=act.outcomes[card.number])
        if card.number in act.outcomes
        else card
        for card in (*bench.cards, *added)
    )
    focus = act.focus or bench.focus
    accepted = focus if act.accepted else bench.accepted
    return msgspec.structs.replace(bench, cards=cards, focus=focus, accepted=accepted)
