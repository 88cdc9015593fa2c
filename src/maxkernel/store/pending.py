"""Rows that wait for the end of a batch, so that many are written with few statements."""

from __future__ import annotations

import sqlite3
from typing import Any


class Pending:
    """Belongs to one transaction, in which nobody else can take event ids."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._rows: dict[str, list[tuple[Any, ...]]] = {}
        query = "SELECT coalesce(max(id), 0) + 1 FROM events"
        self._next_event: int = db.execute(query).fetchone()[0]

    def take_event(self) -> int:
        """The id for the next event."""
        self._next_event += 1
        return self._next_event - 1

    def add(self, statement: str, *row: Any) -> None:
        """Remembers a statement's values."""
        self._rows.setdefault(statement, []).append(row)

    def write(self) -> None:
        """Executes what waits, statement by statement; updates after what they update."""
        for statement in sorted(self._rows, key=lambda s: s.startswith("UPDATE")):
            self._db.executemany(statement, self._rows[statement])
        self._rows.clear()
