"""The index: SQLite FTS5 over the guide and the installed jax, built on first use."""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path

import msgspec

from maxkernel.config import Settings
from maxkernel.errors import EnvironmentFault
from maxkernel.knowledge.entries import Entry, guide_entries, jax_entries
from maxkernel.knowledge.extract import extract, jax_folder, version_of

FORMAT = 1
"""Part of the file's name; raise it when the tables change."""

QUERY_TERMS = 24
"""Words of a query that are used; error messages can be long."""

_STOP = frozenset(
    "a an and are as at be by for from in is it its of on or that the to with".split()
)


class Hit(msgspec.Struct, frozen=True):
    """One search result, best first."""

    id: str
    title: str
    excerpt: str
    """The passage around the words found, on one line."""


class Library:
    """An open index. Thread-safe, read-only."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._db = sqlite3.connect(f"file:{path}?mode=ro", uri=True, check_same_thread=False)

    def close(self) -> None:
        """Closes the file."""
        with self._lock:
            self._db.close()

    def search_docs(self, query: str, k: int = 5) -> list[Hit]:
        """The `k` entries that match best; any text is a valid query."""
        terms = _terms(query)
        if not terms or k < 1:
            return []
        sql = (
            "SELECT id, title, snippet(docs, 2, '', '', ' ... ', 32) FROM docs WHERE docs MATCH ?"
            " ORDER BY bm25(docs, 0.0, 6.0, 1.0, 3.0) *"
            " CASE substr(id, 1, 3) WHEN 'gui' THEN 1.6 WHEN 'api' THEN 1.3 ELSE 1.0 END LIMIT ?"
        )
        with self._lock:
            rows = self._db.execute(sql, (" OR ".join(terms), k)).fetchall()
        return [Hit(id, title, " ".join(excerpt.split())) for id, title, excerpt in rows]

    def read_doc(self, id: str) -> str | None:
        """The whole text of an entry, None where there is no such entry."""
        with self._lock:
            row = self._db.execute("SELECT title, body FROM docs WHERE id = ?", (id,)).fetchone()
        return None if row is None else f"# {row[0]}\n\n{row[1]}"

    def ids(self) -> list[str]:
        """Ids of all entries."""
        with self._lock:
            return [row[0] for row in self._db.execute("SELECT id FROM docs ORDER BY id")]


def open_library(settings: Settings) -> Library:
    """The index for the workers' jax, built when it is not there yet (about a second).

    Its name holds the version of jax and a digest of the guide, so a new one of either gets its
    own. Raises EnvironmentFault where there is no jax, or no place to write.
    """
    folder = jax_folder(settings.python)
    guide = list(guide_entries())
    digest = hashlib.sha256(msgspec.json.encode(guide) + str(folder).encode()).hexdigest()[:12]
    path = settings.cache_path / f"knowledge-{FORMAT}-{version_of(folder)}-{digest}.sqlite"
    if not path.is_file():
        _build(path, [*guide, *jax_entries(extract(folder))])
    return Library(path)


def _build(path: Path, entries: Iterable[Entry]) -> None:
    """Writes beside the final name and renames, so that several processes may build at once."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    except OSError as error:
        raise EnvironmentFault(
            f"cannot write the documentation index {path}: {error.strerror}",
            "set MAXKERNEL_CACHE_DIR to a folder that can be written",
        ) from error
    os.close(handle)
    db = sqlite3.connect(temporary)
    with db:
        db.execute(
            "CREATE VIRTUAL TABLE docs USING fts5(id UNINDEXED, title, body, words,"
            " tokenize = 'porter unicode61')"
        )
        db.executemany(
            "INSERT INTO docs VALUES (?, ?, ?, ?)",
            ((e.id, e.title, e.body, _split_names(e.title)) for e in entries),
        )
    db.close()
    os.replace(temporary, path)


def _split_names(text: str) -> str:
    """`pl.BlockSpec` also as `block spec`, so that words find camel-case names."""
    return " ".join(re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", text)).lower()


def _terms(query: str) -> list[str]:
    """Quoted FTS5 terms: operators and punctuation in a query have no meaning."""
    words = re.findall(r"[A-Za-z][A-Za-z0-9_]*|\d{2,}", query)
    kept = dict.fromkeys(w.lower() for w in words if len(w) > 1 and w.lower() not in _STOP)
    return [f'"{word}"' for word in list(kept)[:QUERY_TERMS]]
