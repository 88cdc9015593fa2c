"""Keeps an engine at a pairing session while there is work for it, in a thread of its own."""

from __future__ import annotations

import threading
from pathlib import Path

from maxkernel.api.pairing import open_engine
from maxkernel.api.session import Session
from maxkernel.errors import MaxkernelError
from maxkernel.modes.pair import PairEngine, PairSession, out_of_step

_POLL_SECONDS = 0.2

CLOSE_SECONDS = 30.0
"""How long `close` waits for the evaluation in flight."""


class EngineHost:
    """Drives a run whenever it has work and no other process drives it.

    With `idle_seconds`, the run is let go after so long without work, so that others may drive
    it; without, it is kept until `close`.
    """

    def __init__(
        self,
        session: Session,
        folder: Path,
        idle_seconds: float | None = None,
    ) -> None:
        self.problem = ""
        """Why this process cannot drive the run; empty while nothing is wrong."""
        self._session = session
        self._folder = folder
        self._idle = idle_seconds
        self._client = PairSession(folder, "engine")
        self._engine: PairEngine | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"engine {folder.name}", daemon=True)
        self._thread.start()

    @property
    def driving(self) -> bool:
        """True while this process drives the run."""
        return self._engine is not None

    def close(self) -> None:
        """Lets the run go after the evaluation in flight; an unfinished stage is kept for later."""
        self._closing.set()
        engine = self._engine
        if engine is not None:
            engine.close()
        self._thread.join(CLOSE_SECONDS)
        self._client.close()

    def _run(self) -> None:
        while not self._closing.is_set():
            if self._wanted():
                self._drive()
            self._closing.wait(_POLL_SECONDS)

    def _wanted(self) -> bool:
        state = self._client.state
        work = state.running or out_of_step(state) or self._client.prepared is None
        return (work or self._idle is None) and not self._client.run.driven()

    def _drive(self) -> None:
        try:
            engine = open_engine(self._session, self._folder)
        except MaxkernelError as error:
            if not self._client.run.driven():
                self.problem = f"{error.message} {error.advice}".strip()
                self._closing.set()
            return
        self._engine = engine
        if self._closing.is_set():
            engine.close()
        try:
            engine.serve(self._idle)
        finally:
            self._engine = None
            engine.release()
        if engine.problem:
            self.problem = engine.problem
            self._closing.set()
