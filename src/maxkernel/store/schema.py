"""Tables of the run file, as numbered migrations; `user_version` counts those applied."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from maxkernel.errors import UsageError

MIGRATIONS = (
    """
    CREATE TABLE header (body BLOB NOT NULL);
    CREATE TABLE events (
        id INTEGER PRIMARY KEY,
        at REAL NOT NULL,
        session INTEGER NOT NULL,
        kind TEXT NOT NULL,
        body BLOB NOT NULL
    );
    CREATE TABLE steps (
        key TEXT PRIMARY KEY,
        event INTEGER NOT NULL REFERENCES events(id),
        body BLOB NOT NULL
    );
    CREATE TABLE designs (
        id INTEGER PRIMARY KEY,
        event INTEGER NOT NULL REFERENCES events(id),
        body BLOB NOT NULL
    );
    CREATE TABLE evaluations (
        candidate TEXT PRIMARY KEY,
        design INTEGER NOT NULL,
        event INTEGER NOT NULL REFERENCES events(id),
        body BLOB NOT NULL
    );
    CREATE TRIGGER events_stay BEFORE DELETE ON events
        BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
    CREATE TRIGGER events_fixed BEFORE UPDATE ON events
        BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
    """,
    """
    CREATE TABLE intents (
        id INTEGER PRIMARY KEY,
        event INTEGER NOT NULL REFERENCES events(id),
        body BLOB NOT NULL
    );
    """,
)


def migrate(db: sqlite3.Connection, name: str) -> None:
    """Brings a run file up to date; raises UsageError when a newer maxkernel wrote it."""
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version > len(MIGRATIONS):
        raise UsageError(
            f"{name} was written by a newer maxkernel (format {version}; this one knows "
            f"{len(MIGRATIONS)})",
            "upgrade maxkernel to read it",
        )
    for number, script in enumerate(MIGRATIONS[version:], version + 1):
        db.executescript(f"BEGIN; {script} PRAGMA user_version = {number}; COMMIT;")


def write_new(path: Path, header: bytes) -> None:
    """A new run file. It gets its name when its header is in it: killed before, it leaves none."""
    new = path.with_name(f"{path.name}.new")
    with closing(sqlite3.connect(new, isolation_level=None)) as db:
        migrate(db, str(new))
        db.execute("INSERT INTO header VALUES (?)", (header,))
    new.replace(path)
