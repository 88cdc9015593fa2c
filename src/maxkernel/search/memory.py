"""What worked on earlier tasks: which move gained how much on which operators and target.

One file per user. A search reads it once, when it starts, and keeps what it read in its run, so
that it goes on the same way after a kill. Cures of failures are remembered by the model team.
"""

from __future__ import annotations

import hashlib
import math
import sqlite3
import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

import msgspec

from maxkernel.search.graph import DesignGraph
from maxkernel.search.options import Scale
from maxkernel.types import Graph, Plan, TaskInfo

FILE = "memory.sqlite"
OTHER_OPERATORS = 0.25
"""Weight of what was seen on other operators, beside 1 for the same ones."""
OTHER_TARGET = 0.1
"""Further factor for what was seen on another target."""
PRIOR = 2.0
"""Weight of a mover's own expectation, in observations."""
KEPT = 20_000
"""Observations kept; the oldest go first."""


class Lesson(msgspec.Struct, frozen=True):
    """What a move has gained so far: the weighted mean of ln(time before / time after)."""

    move: str
    gain: float
    weight: float


class Observation(msgspec.Struct, frozen=True):
    """One move and what came of it."""

    move: str
    gain: float


class Memory:
    """The user's file. Thread-safe, shared by processes; a broken file is set aside."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / FILE
        self._lock = threading.Lock()
        self._db = self._open()

    def lessons(self, info: TaskInfo, target: str) -> list[Lesson]:
        """Everything that is known about moves, weighted for this task and target."""
        mine = pattern_of(info)
        with self._lock:
            rows = self._db.execute(
                "SELECT move, pattern = ?, target = ?, sum(gain), count(*) FROM moves"
                " GROUP BY 1, 2, 3 ORDER BY 1",
                (mine, target),
            ).fetchall()
        sums: dict[str, tuple[float, float]] = {}
        for move, same_pattern, same_target, total, count in rows:
            weight = (1.0 if same_pattern else OTHER_OPERATORS) * (
                1.0 if same_target else OTHER_TARGET
            )
            gain, weights = sums.get(move, (0.0, 0.0))
            sums[move] = (gain + weight * total, weights + weight * count)
        return [Lesson(move, gain / weight, weight) for move, (gain, weight) in sums.items()]

    def learn(
        self, run: str, info: TaskInfo, target: str, observations: Iterable[Observation]
    ) -> None:
        """Replaces what is remembered of a run."""
        pattern = pattern_of(info)
        with self._lock, self._db:
            self._db.execute("DELETE FROM moves WHERE run = ?", (run,))
            self._db.executemany(
                "INSERT INTO moves (run, pattern, target, move, gain) VALUES (?, ?, ?, ?, ?)",
                [(run, pattern, target, o.move, o.gain) for o in observations],
            )
            self._db.execute(
                "DELETE FROM moves WHERE id <= (SELECT max(id) FROM moves) - ?", (KEPT,)
            )

    def close(self) -> None:
        """Closes the file."""
        with self._lock:
            self._db.close()

    def _open(self) -> sqlite3.Connection:
        for _ in range(2):
            db = sqlite3.connect(self._path, check_same_thread=False, timeout=30.0)
            try:
                db.execute("PRAGMA journal_mode = WAL")
                with db:
                    db.execute(
                        "CREATE TABLE IF NOT EXISTS moves (id INTEGER PRIMARY KEY AUTOINCREMENT,"
                        " run TEXT NOT NULL, pattern TEXT NOT NULL, target TEXT NOT NULL,"
                        " move TEXT NOT NULL, gain REAL NOT NULL)"
                    )
                return db
            except sqlite3.DatabaseError:
                db.close()
                self._path.replace(self._path.with_suffix(".broken"))
        raise OSError(f"cannot open {self._path}")


@contextmanager
def open_memory(folder: Path, wanted: bool) -> Generator[Memory | None]:
    """The memory in `folder`, closed afterwards; None when it is not wanted."""
    memory = Memory(folder) if wanted else None
    try:
        yield memory
    finally:
        if memory is not None:
            memory.close()


def pattern_of(info: TaskInfo) -> str:
    """The operators of a task, whatever their shapes, as a digest."""
    names = sorted(_operators(info.graph))
    return hashlib.sha256(",".join(names).encode()).hexdigest()[:16]


def expected(lessons: dict[str, Lesson], move: str, gain: float) -> float:
    """A mover's expectation, corrected by what was seen before."""
    lesson = lessons.get(move)
    if lesson is None:
        return gain
    return (PRIOR * gain + lesson.weight * lesson.gain) / (PRIOR + lesson.weight)


def name_of_plan(plan: Plan) -> str:
    """What a plan of its own is remembered as; its gain is ln(XLA's time / its best time)."""
    return f"plan: {plan.family}: {plan.strategy}"


def observations(graph: DesignGraph, scale: Scale) -> list[Observation]:
    """What every move of a search gained: the best of what a plan came to against XLA, other
    moves against the design that they started from."""
    found: list[Observation] = []
    for node in graph:
        parents = [graph[p] for p in node.intent.parents if p in graph.nodes]
        if node.is_repair or node.peak is None:
            continue
        if not parents:
            found.append(Observation(name_of_plan(node.intent.plan), scale.merit(node.peak)))
            continue
        own = [n.seconds for n in graph.serving(node.id) if n.seconds is not None]
        before = parents[0].seconds
        if own and before is not None:
            found.append(Observation(node.intent.move, math.log(before / min(own))))
    return found


def _operators(graph: Graph) -> set[str]:
    names: set[str] = set()
    for node in graph.nodes:
        names.add(node.op)
        for body in node.bodies.values():
            names |= _operators(body)
    return names
