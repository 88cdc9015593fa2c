"""`maxkernel pair`: opens or resumes a session and puts the terminal in front of it."""

from __future__ import annotations

import sys
from pathlib import Path

import platformdirs

from maxkernel.api import (
    EngineHost,
    Models,
    change_models,
    load_task,
    open_session,
    start_pair,
)
from maxkernel.cli import tables
from maxkernel.cli.pair.face import Face
from maxkernel.config import load_settings
from maxkernel.errors import EXIT_ACCEPTED, UsageError
from maxkernel.modes.pair import Approve, PairSession
from maxkernel.store import RunFile, find_run
from maxkernel.targets import get_target
from maxkernel.types import Budget


def run_pair(
    task: str | None,
    resume: str | None,
    target: str,
    budget: Budget,
    approve: str | None,
    unsafe: bool,
    models: Models | None = None,
) -> int:
    """A new session on `task`, or the run named by `resume` as it was left."""
    word = _approve(approve)
    if (task is None) == (resume is None):
        raise UsageError(
            "name a task, or a run with --resume", "maxkernel pair examples/rmsnorm.py"
        )
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("pair needs a terminal", "`maxkernel optimize` runs without a person")
    settings = load_settings()
    folder = find_run(settings.runs_path, resume) if resume is not None else None
    loaded = load_task(task) if task is not None else None
    if folder is not None:
        with RunFile.read(folder) as run:
            target = run.header.target
    get_target(target)
    with open_session(target, settings=settings, unsafe_no_sandbox=unsafe) as session:
        if folder is None:
            assert loaded is not None
            with tables.status("starting the workers", quiet=False):
                folder = start_pair(session, loaded, budget, word or "all", models)
        client = PairSession(folder, "terminal")
        if resume is not None and word is not None:
            client.set_approve(word)
        if resume is not None and models is not None and models.by_role:
            change_models(client.run, models)
        host = EngineHost(session, folder)
        try:
            Face(client, host, _history()).run()
        finally:
            with tables.status("closing; an evaluation in flight is finished first", quiet=False):
                host.close()
            name = client.name
            client.close()
    tables.console.print(f"left {name}; `maxkernel pair --resume {name}` comes back to this point")
    return EXIT_ACCEPTED


def _approve(word: str | None) -> Approve | None:
    if word is None or word in ("all", "plans", "none"):
        return word
    raise UsageError(f"--approve {word}: expected all, plans or none")


def _history() -> Path:
    return Path(platformdirs.user_state_dir("maxkernel")) / "pair-history"
