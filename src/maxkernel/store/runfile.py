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
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from maxkernel.errors import UsageError
from maxkernel.store.claim import claim, is_claimed
from maxkernel.store.codec import decode, encode
from maxkernel.store.records import Event as Event
from maxkernel.store.records import RunHeader as RunHeader
from maxkernel.store.schema import migrate
from maxkernel.types import Design, Evaluation, Intent

T = TypeVar("T")

FILE_NAME = "run.sqlite"


class RunFile:
    """An open run file. Thread-safe; one process drives a run at a time, any number may read."""

    def __init__(self, folder: Path, *, drive: bool) -> None:
        self.folder = folder
        self._lock = threading.RLock()
        self._listeners: list[Callable[[Event], None]] = []
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
        run = cls(folder, drive=True)
        with run._lock:
            run._db.execute("INSERT INTO header VALUES (?)", (encode(header),))
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
        with self._lock:
            event = self._append(kind, body)
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
        with self._lock, self.batch():
            event = self._append("step", {"key": key})
            self._db.execute(
                "INSERT INTO steps VALUES (?, ?, ?)",
                (key, event.id, encode(value)),
            )
        self._tell(event)

    def amend(self, key: str, value: Any) -> None:
        """Replaces the result of step `key`, once other tables hold what was bulky in it."""
        with self._lock:
            body = encode(value)
            self._db.execute("UPDATE steps SET body = ? WHERE key = ?", (body, key))

    @contextmanager
    def batch(self) -> Generator[None]:
        """Everything that is written inside is stored at once at the end, or not at all.

        Other threads wait meanwhile. Batches may be nested; only the outermost one stores.
        """
        with self._lock:
            if self._db.in_transaction:
                yield
                return
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def add_intent(self, intent: Intent) -> None:
        """Stores an intent; one that is there already stays as it is."""
        with self._lock:
            if self._db.execute("SELECT 1 FROM intents WHERE id = ?", (intent.id,)).fetchone():
                return
            with self.batch():
                event = self._append("intent", {"id": intent.id, "move": intent.move})
                self._db.execute(
                    "INSERT INTO intents VALUES (?, ?, ?)",
                    (intent.id, event.id, encode(intent)),
                )
        self._tell(event)

    def intent(self, id: int) -> Intent | None:
        """One intent."""
        rows = self._rows("SELECT body FROM intents WHERE id = ?", id)
        return decode(rows[0][0], Intent) if rows else None

    def intents(self) -> list[Intent]:
        """All intents, oldest first."""
        rows = self._rows("SELECT body FROM intents ORDER BY id")
        return [decode(row[0], Intent) for row in rows]

    def add_design(self, design: Design) -> None:
        """Stores a design; a design that is there already stays as it is."""
        with self._lock:
            if self._db.execute("SELECT 1 FROM designs WHERE id = ?", (design.id,)).fetchone():
                return
            with self.batch():
                event = self._append("design", {"id": design.id, "move": design.move})
                self._db.execute(
                    "INSERT INTO designs VALUES (?, ?, ?)",
                    (design.id, event.id, encode(design)),
                )
        self._tell(event)

    def designs(self) -> list[Design]:
        """All designs, oldest first."""
        rows = self._rows("SELECT body FROM designs ORDER BY id")
        return [decode(row[0], Design) for row in rows]

    def design(self, id: int) -> Design | None:
        """One design."""
        rows = self._rows("SELECT body FROM designs WHERE id = ?", id)
        return decode(rows[0][0], Design) if rows else None

    def add_evaluation(self, design: int, evaluation: Evaluation) -> None:
        """Stores what the judge found about a candidate; each candidate counts once."""
        digest = evaluation.candidate.digest
        with self._lock:
            if self.evaluation(digest) is not None:
                return
            with self.batch():
                event = self._append("evaluation", _summary(design, evaluation))
                self._db.execute(
                    "INSERT INTO evaluations VALUES (?, ?, ?, ?)",
                    (digest, design, event.id, encode(evaluation)),
                )
        self._tell(event)

    def evaluation(self, candidate: str) -> Evaluation | None:
        """The stored evaluation of a candidate, by its digest."""
        rows = self._rows("SELECT body FROM evaluations WHERE candidate = ?", candidate)
        return decode(rows[0][0], Evaluation) if rows else None

    def evaluations(self) -> list[tuple[int, Evaluation]]:
        """(design id, evaluation) of every candidate, oldest first."""
        rows = self._rows("SELECT design, body FROM evaluations ORDER BY event")
        return [(row[0], decode(row[1], Evaluation)) for row in rows]

    def events(self, after: int = 0) -> Iterator[Event]:
        """Events with an id above `after`, oldest first."""
        rows = self._rows(
            "SELECT id, at, session, kind, body FROM events WHERE id > ? ORDER BY id", after
        )
        for id, at, session, kind, body in rows:
            yield Event(id, at, session, kind, msgspec.json.decode(body))

    def driven(self) -> bool:
        """True while some process drives this run."""
        return is_claimed(self.folder)

    def spent_seconds(self) -> float:
        """Seconds that all sessions have driven this run, up to each one's last event."""
        rows = self._rows("SELECT max(at) - min(at) FROM events WHERE session > 0 GROUP BY session")
        return float(sum(row[0] for row in rows))

    def _rows(self, query: str, *values: Any) -> list[Any]:
        with self._lock:
            return self._db.execute(query, values).fetchall()

    def _append(self, kind: str, body: dict[str, Any]) -> Event:
        at = time.time()
        cursor = self._db.execute(
            "INSERT INTO events (at, session, kind, body) VALUES (?, ?, ?, ?)",
            (at, self.session, kind, msgspec.json.encode(body)),
        )
        return Event(cursor.lastrowid or 0, at, self.session, kind, body)

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
