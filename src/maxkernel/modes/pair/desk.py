"""What a stage works with, and the words and outcomes that several stages share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from maxkernel.modes.pair.acts import Ask, Focus
from maxkernel.modes.pair.explain import Search
from maxkernel.modes.pair.facts import find_design, focus_on, speedup
from maxkernel.modes.pair.state import Bench, Card
from maxkernel.search import Context
from maxkernel.store import RunFile
from maxkernel.types import Design, Evaluation, Outcome, Plan, Verdict

Publish = Callable[[RunFile, Verdict, int, str], str]
"""Writes an accepted kernel's bundle: (run, verdict, design, explanation) -> where it lies."""


@dataclass(frozen=True)
class Desk:
    """What one stage works with."""

    proposal: int
    ask: Ask
    bench: Bench
    context: Context
    publish: Publish
    search: Search

    @property
    def key(self) -> str:
        """Names this stage's steps in the run file, so that a killed stage is taken up again."""
        return f"pair/{self.proposal}"

    @property
    def focus(self) -> Focus:
        """The kernel that the stage is about."""
        focus = self.bench.focus
        if focus is not None and self.ask.design in (None, focus.design):
            return focus
        assert self.ask.design is not None
        design = find_design(self.context.run, self.ask.design)
        return focus_on(self.context.run, self.context.prepared, self.bench, design)

    def design(self) -> Design:
        """The design that the stage is about."""
        return find_design(self.context.run, self.focus.design)


def history(bench: Bench) -> tuple[Outcome, ...]:
    """What planners hear: every plan that was tried or rejected, and the person's notes."""
    told = [o for card in bench.cards if (o := _told(card)) is not None]
    for note in bench.notes:
        about = f"a person's hint about design {note.design}" if note.design else "a person's hint"
        told.append(Outcome(Plan("hint", note.text, about), None, None, None))
    return tuple(told)


def _told(card: Card) -> Outcome | None:
    if card.status == "rejected":
        return Outcome(card.plan, None, None, None, failure=f"rejected by the person: {card.why}")
    if card.outcome is not None:
        return card.outcome
    return Outcome(card.plan, None, None, None, failure="not tried yet")


def outcome_of(
    desk: Desk, focus: Focus, evaluation: Evaluation, bottleneck: str = ""
) -> dict[int, Outcome]:
    """What became of the focus's plan, by card; nothing when an earlier version did better."""
    card = desk.bench.card(focus.card)
    if card is None:
        return {}
    old = card.outcome
    failure = evaluation.failure
    better = old is not None and old.seconds is not None
    if failure is not None and better:
        return {}
    word = bottleneck or (old.bottleneck if old else "")
    return {
        card.number: Outcome(
            plan=card.plan,
            design=focus.design,
            seconds=focus.seconds,
            speedup=speedup(desk.context.prepared, evaluation),
            tunables=focus.tunables,
            failure=f"{failure.stage}/{failure.kind}: {failure.message}" if failure else "",
            bottleneck=word,
        )
    }


def verdict_words(design: int, evaluation: Evaluation, ratio: float | None) -> str:
    """The judge's word in one line; `ratio` is the speedup."""
    failure = evaluation.failure
    if failure is not None:
        line = f", line {failure.line}" if failure.line else ""
        advice = f"\ntry: {failure.advice}" if failure.advice else ""
        return (
            f"design {design} refused, {failure.stage}/{failure.kind}{line}: "
            f"{failure.message}{advice}"
        )
    time = evaluation.time
    assert time is not None
    against = f", {ratio:.2f}x XLA" if ratio is not None else ""
    return f"design {design} accepted: {time.seconds * 1e6:.4g} us {time.provenance}{against}"
