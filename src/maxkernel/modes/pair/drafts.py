"""What a model is writing, passed on to every client of a session while it is written."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from maxkernel.engineers.llm import Words
from maxkernel.engineers.llm.calls import without_secrets
from maxkernel.modes.pair.acts import Wrote

PIECE_SECONDS = 0.2
"""Pieces of an answer are written at most this often."""

LONGEST = 100_000
"""Characters of an answer that are passed on while it is written."""


class Drafts:
    """Hears models and writes pieces of one answer at a time. Thread-safe.

    The first of several answers that are written side by side is the one that is passed on.
    Pieces end between words, so that no secret is passed on in halves.
    """

    def __init__(self, write: Callable[[Wrote], None]) -> None:
        self._write = write
        self._lock = threading.Lock()
        self._proposal: int | None = None
        self._question: int | None = None
        self._latest: Words | None = None
        self._written = ""
        self._at = 0.0

    def begin(self, proposal: int | None) -> None:
        """What is heard from now on belongs to this stage; None: to nobody."""
        with self._lock:
            self._proposal, self._question, self._written = proposal, None, ""

    def hear(self, words: Words) -> None:
        """Some words of an answer."""
        with self._lock:
            if self._proposal is None or self._question not in (None, words.question):
                return
            if words.done:
                self._pass_on(last=True)
                self._question = None
                return
            if self._question is None:
                self._question, self._latest, self._at = words.question, None, 0.0
            self._latest = words
            if time.monotonic() - self._at >= PIECE_SECONDS:
                self._pass_on(last=False)

    def _pass_on(self, *, last: bool) -> None:
        words, proposal = self._latest, self._proposal
        if words is None or proposal is None or self._question is None:
            return
        text = words.text[:LONGEST]
        if not last:
            text = text[: max(text.rfind(" "), text.rfind("\n")) + 1]
        text = without_secrets(text)
        fresh = not text.startswith(self._written) or not self._written
        piece = text if fresh else text[len(self._written) :]
        if piece:
            self._write(Wrote(proposal=proposal, role=words.role, text=piece, fresh=fresh))
            self._written, self._at = text, time.monotonic()
