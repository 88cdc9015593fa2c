"""The memory of cures: which change made which failure go away, across tasks."""

from __future__ import annotations

import difflib
import re
import sqlite3
import threading
from pathlib import Path

from maxkernel.engineers.llm.archive import Archive
from maxkernel.types import Evaluation, Failure

DIFF_LINES = 40
"""Lines of a change that are kept."""
KEPT = 2000
"""Cures kept; the oldest go first."""


class Fixes:
    """Pairs of failure and change, in a file in the user's cache. Thread-safe.

    Without a path nothing is kept beyond this process.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._lock = threading.Lock()
        self._learnt: set[tuple[int, int]] = set()
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(path or ":memory:", check_same_thread=False, timeout=30.0)
        with self._db:
            self._db.execute(
                "CREATE VIRTUAL TABLE IF NOT EXISTS fixes USING fts5("
                "kind UNINDEXED, message, change UNINDEXED, tokenize = 'porter unicode61')"
            )

    def close(self) -> None:
        """Closes the file."""
        with self._lock:
            self._db.close()

    def learn(self, archive: Archive) -> None:
        """Adds every repair of a run after which the failure was gone."""
        designs = {design.id: design for design in archive.designs()}
        found = dict(reversed(archive.evaluations()))
        for design in designs.values():
            if not design.move.startswith("repair") or not design.parents:
                continue
            parent = designs.get(design.parents[0])
            before = found.get(design.parents[0])
            after = found.get(design.id)
            if parent is None or before is None or after is None or before.failure is None:
                continue
            if _gone(before.failure, after):
                self._add((parent.id, design.id), before.failure, parent.source, design.source)

    def similar(self, failure: Failure, k: int) -> str:
        """The `k` changes that cured the most similar failures, as text; empty without any."""
        words = dict.fromkeys(re.findall(r"[A-Za-z_]{3,}", failure.message.lower()))
        if not words:
            return ""
        query = " OR ".join(f'"{word}"' for word in list(words)[:24])
        with self._lock:
            rows = self._db.execute(
                "SELECT message, change FROM fixes WHERE kind = ? AND fixes MATCH ?"
                " ORDER BY bm25(fixes) LIMIT ?",
                (failure.kind, query, k),
            ).fetchall()
        return "\n\n".join(f"{message}\n{change}" for message, change in rows)

    def _add(self, key: tuple[int, int], failure: Failure, before: str, after: str) -> None:
        change = difflib.unified_diff(before.splitlines(), after.splitlines(), n=1, lineterm="")
        text = "\n".join(list(change)[2 : 2 + DIFF_LINES])
        with self._lock, self._db:
            if key in self._learnt or self._known(failure, text):
                return
            self._learnt.add(key)
            self._db.execute(
                "INSERT INTO fixes VALUES (?, ?, ?)", (failure.kind, failure.message[:400], text)
            )
            self._db.execute(
                "DELETE FROM fixes WHERE rowid <= (SELECT max(rowid) FROM fixes) - ?", (KEPT,)
            )

    def _known(self, failure: Failure, text: str) -> bool:
        row = self._db.execute(
            "SELECT 1 FROM fixes WHERE kind = ? AND change = ?", (failure.kind, text)
        ).fetchone()
        return row is not None


_ORDER = ("capture", "rules", "compile", "check", "time")


def _gone(before: Failure, after: Evaluation) -> bool:
    """The repair got past the failure: accepted, or refused at a later stage."""
    if after.failure is None:
        return True
    if before.stage not in _ORDER or after.failure.stage not in _ORDER:
        return False
    return _ORDER.index(after.failure.stage) > _ORDER.index(before.stage)
