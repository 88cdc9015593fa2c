"""What the studio keeps open: clients of runs, workers per target, engines at work."""

from __future__ import annotations

import re
import threading
from contextlib import ExitStack
from pathlib import Path

from maxkernel.api import EngineHost, Models, Session, open_session, resume_run, start_pair
from maxkernel.api.stopping import ask_to_stop
from maxkernel.config import Settings
from maxkernel.errors import MaxkernelError, UsageError
from maxkernel.modes.pair import Approve, PairSession
from maxkernel.store import RunFile
from maxkernel.targets import get_target
from maxkernel.types import Budget, Task

IDLE_SECONDS = 60.0
"""A run that the studio drives is let go after so long without work."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Studio:
    """Thread-safe. Nothing is started before it is needed; `close` ends all of it."""

    def __init__(
        self,
        settings: Settings,
        tasks: dict[str, Task],
        models: Models | None = None,
        unsafe_no_sandbox: bool = False,
    ) -> None:
        self.settings = settings
        self.tasks = tasks
        """Tasks that a session may be opened on, by name: the browser sends names, never code."""
        self.closing = threading.Event()
        self._models = models
        self._unsafe = unsafe_no_sandbox
        self._lock = threading.RLock()
        self._stack = ExitStack()
        self._sessions: dict[str, Session] = {}
        self._clients: dict[str, PairSession] = {}
        self._hosts: dict[str, EngineHost] = {}
        self._drivers: dict[str, threading.Thread] = {}
        self._problems: dict[str, str] = {}

    @property
    def runs_path(self) -> Path:
        """Folder of the runs that are shown."""
        return self.settings.runs_path

    def client(self, run: str) -> PairSession:
        """This server's client of a run. Raises UsageError when there is no such run."""
        with self._lock:
            if run not in self._clients:
                if not _NAME.fullmatch(run):
                    raise UsageError(f"there is no run {run!r}")
                folder = self.runs_path / run
                with RunFile.read(folder) as found:
                    found.header  # noqa: B018  raises for a run that never started
                self._clients[run] = PairSession(folder, "browser")
            return self._clients[run]

    def session(self, target: str) -> Session:
        """Open workers for a target, started on first use."""
        with self._lock:
            if target not in self._sessions:
                opened = open_session(
                    target, settings=self.settings, unsafe_no_sandbox=self._unsafe
                )
                self._sessions[target] = self._stack.enter_context(opened)
            return self._sessions[target]

    def start(self, task: str, target: str, candidates: int, approve: Approve) -> str:
        """A new pairing session on a listed task; its run's name."""
        if task not in self.tasks:
            raise UsageError(f"there is no task {task!r}", "choose one from the list")
        get_target(target)
        session = self.session(target)
        budget = Budget(candidates=candidates)
        folder = start_pair(session, self.tasks[task], budget, approve, self._models)
        self.attend(folder.name)
        return folder.name

    def attend(self, run: str) -> None:
        """Sees to it that a pairing session has an engine, unless another process drives it."""
        client = self.client(run)
        with self._lock:
            host = self._hosts.get(run)
            if host is not None and not host.problem:
                return
            session = self.session(client.run.header.target)
            self._hosts[run] = EngineHost(session, client.run.folder, idle_seconds=IDLE_SECONDS)

    def problem(self, run: str) -> str:
        """Why this process cannot drive a run; empty while nothing is wrong."""
        host = self._hosts.get(run)
        return (host.problem if host else "") or self._problems.get(run, "")

    def resume(self, run: str) -> None:
        """Goes on with a search that was stopped or killed, in the background."""
        client = self.client(run)
        if client.run.driven():
            raise UsageError(f"{run} is running already")
        header = client.run.header
        session = self.session(header.target)
        with self._lock:
            self._problems.pop(run, None)
            thread = threading.Thread(
                target=self._resume, args=(session, client.run.folder), daemon=True
            )
            self._drivers[run] = thread
            thread.start()

    def stop(self, run: str) -> None:
        """Tells whatever drives a run to end as soon as it can."""
        client = self.client(run)
        if client.state.running:
            client.stop()
        elif client.run.driven():
            ask_to_stop(client.run)
        else:
            raise UsageError(f"{run} is not running")

    def close(self) -> None:
        """Ends engines after their evaluation in flight, then the workers."""
        self.closing.set()
        with self._lock:
            hosts, drivers = list(self._hosts.values()), dict(self._drivers)
            for run, thread in drivers.items():
                if thread.is_alive():
                    ask_to_stop(self._clients[run].run)
        for host in hosts:
            host.close()
        for thread in drivers.values():
            thread.join(30.0)
        with self._lock:
            for client in self._clients.values():
                client.close()
            self._stack.close()

    def _resume(self, session: Session, folder: Path) -> None:
        try:
            resume_run(session, folder)
        except MaxkernelError as error:
            self._problems[folder.name] = f"{error.message} {error.advice}".strip()
