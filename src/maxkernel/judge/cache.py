"""Answers of earlier stages, by content: one SQLite file for all runs of a user.

A key covers everything that the answer depends on: the stage, the content hashes of what went
in, the target, and the versions of jax, the compiler and maxkernel's own stage code.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
import time
import zlib
from pathlib import Path
from typing import TypeVar

import msgspec

T = TypeVar("T", bound=msgspec.Struct)

CACHE_LIMIT_BYTES = 1 << 30
"""Oldest entries go when the file grows past this."""

STAGE_VERSIONS = {"trace": 2, "lint": 2, "capture": 2, "outline": 1, "compile": 7}
"""Raised when the code of a stage changes what it answers."""


class Cache:
    """Thread-safe, shared by processes. A broken file is set aside, never trusted."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._path = folder / "evaluations.sqlite"
        self._db = self._open()

    def get(self, key: str, kind: type[T]) -> T | None:
        """The stored answer of that type, or None."""
        with self._lock:
            row = self._db.execute("SELECT body FROM answers WHERE key = ?", (key,)).fetchone()
        if row is None:
            return None
        try:
            return msgspec.msgpack.decode(zlib.decompress(row[0]), type=kind)
        except (msgspec.DecodeError, zlib.error):
            return None

    def put(self, key: str, value: msgspec.Struct) -> None:
        """Stores an answer, replacing an older one."""
        body = zlib.compress(msgspec.msgpack.encode(value), 1)
        with self._lock:
            self._db.execute(
                "INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", (key, time.time(), body)
            )

    def close(self) -> None:
        """Closes the file, dropping the oldest answers first when it is too large."""
        with self._lock:
            self._trim()
            self._db.close()

    def _open(self) -> sqlite3.Connection:
        for _ in range(2):
            db = sqlite3.connect(
                self._path, check_same_thread=False, isolation_level=None, timeout=30.0
            )
            try:
                db.execute("PRAGMA journal_mode = WAL")
                db.execute("PRAGMA synchronous = NORMAL")
                db.execute(
                    "CREATE TABLE IF NOT EXISTS answers "
                    "(key TEXT PRIMARY KEY, at REAL NOT NULL, body BLOB NOT NULL)"
                )
                return db
            except sqlite3.DatabaseError:
                db.close()
                self._path.replace(self._path.with_suffix(".broken"))
        raise OSError(f"cannot open {self._path}")

    def _trim(self) -> None:
        (size,) = self._db.execute("SELECT coalesce(sum(length(body)), 0) FROM answers").fetchone()
        if size > CACHE_LIMIT_BYTES:
            self._db.execute(
                "DELETE FROM answers WHERE at < (SELECT at FROM answers ORDER BY at "
                "LIMIT 1 OFFSET (SELECT count(*) / 2 FROM answers))"
            )


def stage_key(stage: str, *parts: object) -> str:
    """A key for `stage` over `parts` (anything JSON can hold)."""
    content = json.dumps([stage, STAGE_VERSIONS[stage], *parts], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()
