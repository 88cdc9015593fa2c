"""One run's durable memory.

A mode drives its work through `step`: the result of every finished step is stored under a key,
so that driving the same mode again after a kill returns at once from all that was done. Events
are append-only; the other tables index them.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from maxkernel.errors import UsageError
from maxkernel.store.claim import claim, is_claimed
from maxkernel.store.codec import decode, encode
from maxkernel.store.pending import Pending
from maxkernel.store.recent import Recent
from maxkernel.store.records import Event as Event
from maxkernel.store.records import RunHeader as RunHeader
from maxkernel.store.schema import migrate, write_new
from maxkernel.types import Design, Evaluation, Intent

T = TypeVar("T")

FILE_NAME = "run.sqlite"


class RunFile:
    """An open run file. Thread-safe; one process drives a run at a time, any number may read."""

    def __init__(self, folder: Path, *, drive: bool) -> None:
        self.folder = folder
        self._lock = threading.RLock()
        self._listeners: list[Callable[[Event], None]] = []
        self._pending: Pending | None = None
        self._known: dict[str, set[int | str]] = {}
        self._recent = Recent()
        self._driver = claim(folder) if drive else None
        path = folder / FILE_NAME
        self._db = sqlite3.connect(
            path, check_same_thread=False, isolation_level=None, timeout=30.0
        )
        try:
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            migrate(self._db, str(path))
        except sqlite3.DatabaseError as error:
            raise UsageError(f"{path} is not a run file: {error}") from error
        self.session = self._next_session() if drive else 0

    @classmethod
    def create(cls, folder: Path, header: RunHeader) -> RunFile:
        """A new run in an empty folder, driven by this process."""
        folder.mkdir(parents=True, exist_ok=False)
        write_new(folder / FILE_NAME, encode(header))
        run = cls(folder, drive=True)
        run.event("opened", resumed=False)
        return run

    @classmethod
    def resume(cls, folder: Path) -> RunFile:
        """An existing run, driven by this process from now on."""
        run = cls(folder, drive=True)
        run.event("opened", resumed=True)
        return run

    @classmethod
    def read(cls, folder: Path) -> RunFile:
        """An existing run, to look at."""
        if not (folder / FILE_NAME).is_file():
            raise UsageError(f"no run in {folder}")
        return cls(folder, drive=False)

    def close(self) -> None:
        """Closes the file and lets another process drive the run."""
        with self._lock:
            self._db.close()
        if self._driver is not None:
            os.close(self._driver)
            self._driver = None

    def __enter__(self) -> RunFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def header(self) -> RunHeader:
        """What the run is about."""
        with self._lock:
            row = self._db.execute("SELECT body FROM header").fetchone()
        if row is None:
            raise UsageError(f"{self.folder} holds a run that never started; delete it")
        return decode(row[0], RunHeader)

    def listen(self, listener: Callable[[Event], None]) -> None:
        """Calls `listener` with every event from now on, in the thread that writes it."""
        self._listeners.append(listener)

    def event(self, kind: str, **body: Any) -> int:
        """Appends an event; returns its id."""
        with self.batch() as pending:
            event = self._append(pending, kind, body)
        self._tell(event)
        return event.id

    def step(self, key: str, kind: type[T], make: Callable[[], T]) -> T:
        """The stored result of step `key`, or `make()`, stored before it is returned.

        `kind` is the result's type: anything msgspec can encode, but not None.
        """
        known = self.recall(key, kind)
        if known is not None:
            return known
        value = make()
        self.remember(key, value)
        return value

    def recall(self, key: str, kind: type[T]) -> T | None:
        """The stored result of step `key`, None when it has none."""
        rows = self._rows("SELECT body FROM steps WHERE key = ?", key)
        return decode(rows[0][0], kind) if rows else None

    def remember(self, key: str, value: Any) -> None:
        """Stores the result of step `key`, which has none yet."""
        with self.batch() as pending:
            event = self._append(pending, "step", {"key": key})
            pending.add("INSERT INTO steps VALUES (?, ?, ?)", key, event.id, encode(value))
        self._tell(event)

    def amend(self, key: str, value: Any) -> None:
        """Replaces the result of step `key`, once other tables hold what was bulky in it."""
        with self.batch() as pending:
            pending.add("UPDATE steps SET body = ? WHERE key = ?", encode(value), key)

    @contextmanager
    def batch(self) -> Generator[Pending]:
        """Everything that is written inside is stored at once at the end, or not at all.

        Other threads wait meanwhile. Batches may be nested; only the outermost one stores.
        """
        with self._lock:
            if self._pending is not None:
                yield self._pending
                return
            self._db.execute("BEGIN IMMEDIATE")
            self._pending = Pending(self._db)
            try:
                yield self._pending
                self._pending.write()
            except BaseException:
                self._known.clear()
                self._recent.clear()
                self._db.execute("ROLLBACK")
                raise
            finally:
                self._pending = None
            self._db.execute("COMMIT")

    def add_intent(self, intent: Intent) -> None:
        """Stores an intent; one that is there already stays as it is."""
        with self.batch() as pending:
            if not self._is_new("SELECT id FROM intents", intent.id):
                return
            event = self._append(pending, "intent", {"id": intent.id, "move": intent.move})
            row = intent.id, event.id, encode(intent)
            pending.add("INSERT INTO intents VALUES (?, ?, ?)", *row)
            self._recent.put("intents", intent.id, intent)
        self._tell(event)

    def intent(self, id: int) -> Intent | None:
        """One intent."""
        return self._value("intents", "id", id, Intent)

    def intents(self) -> list[Intent]:
        """All intents, oldest first."""
        rows = self._rows("SELECT body FROM intents ORDER BY id")
        return [decode(row[0], Intent) for row in rows]

    def add_design(self, design: Design) -> None:
        """Stores a design; a design that is there already stays as it is."""
        with self.batch() as pending:
            if not self._is_new("SELECT id FROM designs", design.id):
                return
            event = self._append(pending, "design", {"id": design.id, "move": design.move})
            row = design.id, event.id, encode(design)
            pending.add("INSERT INTO designs VALUES (?, ?, ?)", *row)
            self._recent.put("designs", design.id, design)
        self._tell(event)

    def designs(self) -> list[Design]:
        """All designs, oldest first."""
        rows = self._rows("SELECT body FROM designs ORDER BY id")
        return [decode(row[0], Design) for row in rows]

    def design(self, id: int) -> Design | None:
        """One design."""
        return self._value("designs", "id", id, Design)

    def add_evaluation(self, design: int, evaluation: Evaluation) -> None:
        """Stores what the judge found about a candidate; each candidate counts once."""
        digest = evaluation.candidate.digest
        with self.batch() as pending:
            if not self._is_new("SELECT candidate FROM evaluations", digest):
                return
            event = self._append(pending, "evaluation", _summary(design, evaluation))
            row = digest, design, event.id, encode(evaluation)
            pending.add("INSERT INTO evaluations VALUES (?, ?, ?, ?)", *row)
            self._recent.put("evaluations", digest, evaluation)
        self._tell(event)

    def evaluation(self, candidate: str) -> Evaluation | None:
        """The stored evaluation of a candidate, by its digest."""
        return self._value("evaluations", "candidate", candidate, Evaluation)

    def evaluations(self) -> list[tuple[int, Evaluation]]:
        """(design id, evaluation) of every candidate, oldest first."""
        rows = self._rows("SELECT design, body FROM evaluations ORDER BY event")
        return [(row[0], decode(row[1], Evaluation)) for row in rows]

    def last_event(self) -> int:
        """The id of the newest event; 0 when there is none."""
        return self._rows("SELECT coalesce(max(id), 0) FROM events")[0][0]

    def events(self, after: int = 0, kinds: Sequence[str] = ()) -> Iterator[Event]:
        """Events with an id above `after`, oldest first; those of some kinds only, if given."""
        chosen = f"AND kind IN ({', '.join('?' * len(kinds))})" if kinds else ""
        query = "SELECT id, at, session, kind, body FROM events WHERE id > ?"
        rows = self._rows(f"{query} {chosen} ORDER BY id", after, *kinds)
        for id, at, session, kind, body in rows:
            yield Event(id, at, session, kind, msgspec.json.decode(body))

    def driven(self) -> bool:
        """True while some process drives this run."""
        return is_claimed(self.folder)

    def spent_seconds(self) -> float:
        """Seconds that all sessions have driven this run, up to each one's last event."""
        rows = self._rows("SELECT max(at) - min(at) FROM events WHERE session > 0 GROUP BY session")
        return float(sum(row[0] for row in rows))

    def _value(self, table: str, column: str, key: int | str, kind: type[T]) -> T | None:
        known = self._recent.get(table, key)
        if known is None:
            rows = self._rows(f"SELECT body FROM {table} WHERE {column} = ?", key)
            known = decode(rows[0][0], kind) if rows else None
            if known is not None:
                self._recent.put(table, key, known)
        return known

    def _rows(self, query: str, *values: Any) -> list[Any]:
        with self._lock:
            if self._pending is not None:
                self._pending.write()
            return self._db.execute(query, values).fetchall()

    def _is_new(self, keys: str, key: int | str) -> bool:
        """True for a key that the query `keys` does not list; from then on it counts as known.

        Only the process that drives a run adds to these tables, so it reads the keys once.
        """
        known = self._known.get(keys)
        if known is None:
            known = self._known[keys] = {row[0] for row in self._rows(keys)}
        new = key not in known
        known.add(key)
        return new

    def _append(self, pending: Pending, kind: str, body: dict[str, Any]) -> Event:
        event = Event(pending.take_event(), time.time(), self.session, kind, body)
        row = event.id, event.at, event.session, kind, msgspec.json.encode(body)
        pending.add("INSERT INTO events VALUES (?, ?, ?, ?, ?)", *row)
        return event

    def _tell(self, event: Event) -> None:
        for listener in self._listeners:
            listener(event)

    def _next_session(self) -> int:
        return self._rows("SELECT coalesce(max(session), 0) + 1 FROM events")[0][0]


def _summary(design: int, evaluation: Evaluation) -> dict[str, Any]:
    failure, time = evaluation.failure, evaluation.time
    return {
        "design": design,
        "candidate": evaluation.candidate.digest,
        "tunables": evaluation.candidate.tunables,
        "failure": [failure.stage, failure.kind, failure.message] if failure else None,
        "seconds": time.seconds if time else None,
        "provenance": time.provenance if time else None,
    }
