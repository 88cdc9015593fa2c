"""The engine: the one process that runs a session's stages. It owns no decision."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from maxkernel.engineers.llm import Hear
from maxkernel.engineers.roles import Stopped
from maxkernel.engineers.team import Team
from maxkernel.errors import MaxkernelError
from maxkernel.judge import Judge, Prepared, describe_holes
from maxkernel.modes.pair.acts import KIND, Act, Began, Bundled, Ended, Heard, Joined, Told
from maxkernel.modes.pair.bundle import Withdraw, bring_in_step, out_of_step
from maxkernel.modes.pair.desk import Desk, Publish
from maxkernel.modes.pair.drafts import Drafts
from maxkernel.modes.pair.explain import Search
from maxkernel.modes.pair.facts import budget_of
from maxkernel.modes.pair.fold import fold
from maxkernel.modes.pair.stages import work
from maxkernel.modes.pair.state import Proposal, State
from maxkernel.search import Context
from maxkernel.store import RunFile
from maxkernel.types import Evaluation


@dataclass(frozen=True)
class Hired:
    """The team of a run, and what ends the questions that it is asking models."""

    team: Team
    cancel: Callable[[], None] = lambda: None


Hire = Callable[[RunFile, Prepared, Hear], AbstractContextManager[Hired]]
"""Puts the team of a run together, whose models are heard while they write; leaving it lets the
team go."""

_POLL_SECONDS = 0.1

_SIGN_SECONDS = 0.25
"""Signs of life are written at most this often."""


class PairEngine:
    """Drives one run. Raises UsageError when another process drives it already."""

    def __init__(
        self,
        folder: Path,
        judge: Judge,
        hire: Hire,
        workers: int,
        publish: Publish,
        withdraw: Withdraw,
        search: Search,
    ) -> None:
        self.run = RunFile.resume(folder)
        self.problem = ""
        """Why the task cannot be prepared, or the team cannot be asked."""
        self._judge = judge
        self._hire = hire
        self._workers = workers
        self._publish = publish
        self._withdraw = withdraw
        self._search = search
        self._lock = threading.Lock()
        self._state = State()
        self._closing = threading.Event()
        self._prepared: Prepared | None = None
        self._drafts = Drafts(self._write)
        self._write(Joined())

    def serve(self, idle_seconds: float | None = None) -> None:
        """Runs approved stages until `close`, or until nothing happened for `idle_seconds`.

        Returns at once when the task cannot be prepared or the team cannot be asked; `problem`
        then says why.
        """
        if not self.prepare() or self._prepared is None:
            return
        try:
            with self._hire(self.run, self._prepared, self._drafts.hear) as hired:
                self._serve(hired, idle_seconds)
        except MaxkernelError as error:
            self._complain(error)

    def _serve(self, hired: Hired, idle_seconds: float | None) -> None:
        quiet_since = time.monotonic()
        while not self._closing.is_set():
            if self.step(hired) or self._tidy():
                quiet_since = time.monotonic()
            elif idle_seconds is not None and time.monotonic() - quiet_since > idle_seconds:
                return
            else:
                self._closing.wait(_POLL_SECONDS)

    def close(self) -> None:
        """Ends `serve` after the evaluation in flight; a question in flight is not waited for.

        An unfinished stage is taken up again by the next engine.
        """
        self._closing.set()

    def release(self) -> None:
        """Lets another process drive the run. Call it when `serve` has returned."""
        self.run.close()

    def prepare(self) -> bool:
        """Traces the task and times its baseline, once per run; False when that fails."""
        if self._prepared is not None:
            return True
        task = self.run.header.task
        known = self.run.recall("prepared", Prepared)
        try:
            self._prepared = self.run.step("prepared", Prepared, lambda: self._judge.prepare(task))
        except MaxkernelError as error:
            self._complain(error)
            return False
        if known is None and self._prepared.lint.holes:
            holes = describe_holes(self._prepared.lint)
            text = f"beware: this task's check can be passed without doing the work: {holes}"
            self._write(Told(text=text, problem=True))
        return True

    def _complain(self, error: MaxkernelError) -> None:
        self.problem = f"{error.message} {error.advice}".strip()
        self._write(Told(text=self.problem, problem=True))

    def _tidy(self) -> bool:
        """Writes or takes back the bundle when an acceptance was undone or done again."""
        state, prepared = self._read(), self._prepared
        if prepared is None or not out_of_step(state):
            return False
        wanted = state.bench.accepted
        try:
            done = bring_in_step(
                self.run, self._judge, prepared, wanted, self._publish, self._withdraw
            )
        except (MaxkernelError, OSError) as error:
            self._write(Bundled(focus=wanted))
            self._write(Told(text=f"the bundle could not be changed: {error}", problem=True))
            return True
        self._write(done)
        return True

    def step(self, hired: Hired) -> bool:
        """Runs the approved stage if there is one; True when there was."""
        state = self._read()
        proposal = state.proposal
        if proposal is None or proposal.status == "open":
            return False
        self._write(Began(proposal=proposal.id))
        started = time.monotonic()
        self._drafts.begin(proposal.id)
        with self._cancelling(hired.cancel):
            ended = self._work(proposal, hired.team)
        self._drafts.begin(None)
        if ended is None:
            return False
        self._write(msgspec.structs.replace(ended, seconds=time.monotonic() - started))
        return True

    def _work(self, proposal: Proposal, team: Team) -> Ended | None:
        """None when the engine closes under an unfinished stage: it stays to be done."""
        assert self._prepared is not None
        state = self._read()
        context = self._context(self._prepared, proposal, team)
        desk = Desk(proposal.id, proposal.ask, state.bench, context, self._publish, self._search)
        try:
            ended = work(desk)
        except Stopped:
            ended = Ended(proposal=proposal.id, error="stopped")
        except MaxkernelError as error:
            ended = Ended(proposal=proposal.id, error=f"{error.message} {error.advice}".strip())
        except Exception:
            trace = traceback.format_exc(limit=-3)
            ended = Ended(proposal=proposal.id, error=f"a fault of maxkernel's own:\n{trace}")
        return None if self._closing.is_set() else ended

    @contextmanager
    def _cancelling(self, cancel: Callable[[], None]) -> Generator[None]:
        """Inside, questions to models are ended once the stage is stopped or the engine closed."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(_POLL_SECONDS):
                if self._closing.is_set() or self._read().stopping:
                    cancel()

        watcher = threading.Thread(target=watch, name="stop ear", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()

    def _context(self, prepared: Prepared, proposal: Proposal, team: Team) -> Context:
        budget, started = budget_of(self.run), time.monotonic()
        worked = self._state.worked

        def stopping() -> bool:
            spent = worked + time.monotonic() - started
            late = budget.seconds is not None and spent >= budget.seconds
            return late or self._closing.is_set() or self._read().stopping

        return Context(
            run=self.run,
            judge=self._judge,
            prepared=prepared,
            team=team,
            budget=msgspec.structs.replace(budget, seconds=None),
            workers=self._workers,
            progress=_Signs(self, proposal.id),
            stopping=stopping,
        )

    def _read(self) -> State:
        with self._lock:
            self._state = fold(self._state, self.run.events(self._state.revision))
            return self._state

    def _write(self, act: Act) -> None:
        named = msgspec.structs.replace(act, by="engine")
        self.run.event(KIND, **msgspec.to_builtins(named))

    def heard(self, proposal: int, text: str, design: int | None) -> None:
        """Writes a sign of life from a running stage."""
        self._write(Heard(proposal=proposal, text=text, design=design))


class _Signs:
    """Progress of a stage, written to the run file for every client, not too often."""

    def __init__(self, engine: PairEngine, proposal: int) -> None:
        self._engine = engine
        self._proposal = proposal
        self._lock = threading.Lock()
        self._last = 0.0

    def stage(self, name: str, design: int | None) -> None:
        with self._lock:
            now = time.monotonic()
            if now - self._last < _SIGN_SECONDS:
                return
            self._last = now
        self._engine.heard(self._proposal, name, design)

    def prepared(self, prepared: Prepared) -> None:
        """Clients read it from the run file."""

    def evaluated(self, design: int, evaluation: Evaluation) -> None:
        """Clients read it from the run file."""
