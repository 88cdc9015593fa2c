"""One judgement per program: sources that lower to the same artifact are judged once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

from maxkernel.types import Evaluation


class Artifacts:
    """Which programs are judged or being judged, by digest. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._settled: set[str] = set()
        self._running: dict[str, Future[Evaluation]] = {}

    def settle(self, digest: str) -> None:
        """This program's evaluation is in the run file now."""
        with self._lock:
            self._settled.add(digest)
            self._running.pop(digest, None)

    def settled(self, digest: str) -> bool:
        """True when the run file holds an evaluation of this program."""
        with self._lock:
            return digest in self._settled

    def once(self, digest: str, judge: Callable[[], Evaluation]) -> Evaluation:
        """`judge()`, or the result of another thread's call for the same program."""
        with self._lock:
            running = self._running.get(digest)
            mine = running is None
            if running is None:
                running = self._running[digest] = Future()
        if not mine:
            return running.result()
        try:
            found = judge()
        except BaseException as error:
            with self._lock:
                self._running.pop(digest, None)
            running.set_exception(error)
            raise
        running.set_result(found)
        return found
