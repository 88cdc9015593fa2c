"""Answers in the terminal while they arrive: whole lines above the prompt, the rest below it."""

from __future__ import annotations

from maxkernel.modes.pair import Proposal, Stage

PROSE: frozenset[Stage] = frozenset({"answer", "explain"})
"""Stages whose answer is meant to be read as it is."""

_TAIL = 60
"""Characters of the line under way that the toolbar shows."""


class Draft:
    """Knows how much of the answer under way is on the screen already."""

    def __init__(self) -> None:
        self._proposal: int | None = None
        self._printed = ""

    def lines(self, proposal: Proposal | None) -> str:
        """Whole lines that are new; empty where there are none, and for what is no prose."""
        if proposal is None or proposal.ask.stage not in PROSE:
            return ""
        if proposal.id != self._proposal:
            self._proposal, self._printed = proposal.id, ""
        whole = proposal.draft.lstrip()
        whole = whole[: whole.rfind("\n") + 1]
        if whole.startswith(self._printed):
            new = whole[len(self._printed) :]
        else:
            new = f"(starts over)\n{whole}" if whole else ""
        if new:
            self._printed = whole
        return new.removesuffix("\n")

    def rest(self, text: str) -> str:
        """What is not on the screen yet of the finished text."""
        printed, self._printed = self._printed.rstrip("\n"), ""
        return text[len(printed) :].lstrip("\n") if text.startswith(printed) else text


def tail(proposal: Proposal) -> str:
    """Who writes, and the end of the line under way; empty while nobody does."""
    if not proposal.draft:
        return ""
    line = proposal.draft.splitlines()[-1] if proposal.draft.strip() else ""
    shown = line if len(line) <= _TAIL else "..." + line[-_TAIL:]
    return f"{proposal.writer} writes: {shown}"
