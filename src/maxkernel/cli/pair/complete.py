"""Completion of commands, designs and plans."""

from __future__ import annotations

from collections.abc import Iterable

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from maxkernel.cli.pair.words import COMMANDS
from maxkernel.modes.pair import PairSession

_TAKE_DESIGNS = frozenset(
    {"judge", "debug", "profile", "compare", "accept", "branch", "show", "reject"}
)
_CHOICES = {"approve": ("all", "plans", "none"), "edit": ("kernel", "plan"), "reject": ("plan",)}


class PairCompleter(Completer):
    """Completes what the cursor stands behind."""

    def __init__(self, session: PairSession) -> None:
        self._session = session

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Commands after a slash, then whatever the command takes."""
        text = document.text_before_cursor
        if not text.startswith("/"):
            return
        name, space, rest = text[1:].partition(" ")
        if not space:
            for command in COMMANDS:
                if command.name.startswith(name):
                    yield Completion(f"/{command.name}", -len(text), display_meta=command.help)
            return
        word = rest.rpartition(" ")[2]
        for value, meta in self._values(name, rest):
            if value.startswith(word):
                yield Completion(value, -len(word), display_meta=meta)

    def _values(self, name: str, rest: str) -> Iterable[tuple[str, str]]:
        for choice in _CHOICES.get(name, ()):
            yield choice, ""
        if name == "implement" or rest.startswith("plan "):
            for card in self._session.state.bench.cards:
                yield str(card.number), card.plan.strategy
        elif name in _TAKE_DESIGNS:
            for design in self._session.run.designs():
                yield str(design.id), f"{design.move}: {design.plan.strategy}"
