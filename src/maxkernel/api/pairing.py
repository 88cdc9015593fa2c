"""Opens pairing sessions: a new run, or any run taken up by a person; and the engine for it."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from maxkernel.api.runs import BUNDLE, check_versions, create_run, current_budget
from maxkernel.api.session import Session
from maxkernel.api.team import Models, models_in_force, staffed, warm_models
from maxkernel.config import Settings
from maxkernel.engineers.llm import Desk, Hear, chosen_models
from maxkernel.engineers.team import Team
from maxkernel.errors import MaxkernelError
from maxkernel.judge import Judge, Prepared
from maxkernel.knowledge.library import open_library
from maxkernel.modes import Finish
from maxkernel.modes.pair import Approve, Hired, PairEngine, PairSession
from maxkernel.report import build_report, write_bundle
from maxkernel.store import WITHDRAWN, RunFile
from maxkernel.types import Budget, Task, Verdict

PASSAGES = 3
"""Passages of the guide that a built-in answer quotes."""


def start_pair(
    session: Session,
    task: Task,
    budget: Budget,
    approve: Approve = "all",
    models: Models | None = None,
) -> Path:
    """The folder of a new run for a pairing session. Nothing is judged yet.

    Raises UsageError for models whose notation is wrong; keys are not needed before the engine.
    """
    if models is not None:
        chosen_models(models.by_role)
    with create_run(session, task, budget, "pair", models) as run:
        folder = run.folder
    if approve != "all":
        client = PairSession(folder, "terminal")
        client.set_approve(approve)
        client.close()
    return folder


def open_engine(session: Session, folder: Path) -> PairEngine:
    """The engine that runs a session's stages, in this process.

    Raises UsageError when another process drives the run, or when the run was made with another
    compiler, whose times must not be mixed with this one's.
    """
    with RunFile.read(folder) as run:
        check_versions(session, run.header)
        warm_models(models_in_force(run))
    return PairEngine(
        folder,
        session.judge,
        lambda run, prepared, hear: _hire(session, run, prepared, hear),
        session.settings.workers,
        lambda run, verdict, design, why: _publish(session.judge, run, verdict, design, why),
        _withdraw,
        lambda question: _search(session.settings, question),
    )


class _Attendant:
    """Lets models be heard, and ends their questions when the session wants it."""

    def __init__(self, hear: Hear) -> None:
        self._hear = hear
        self._desk: Desk | None = None

    def desk(self, desk: Desk) -> None:
        """Models are asked at this desk."""
        desk.listen(self._hear)
        self._desk = desk

    def cancel(self) -> None:
        """Ends the questions under way."""
        if self._desk is not None:
            self._desk.cancel()


@contextmanager
def _hire(session: Session, run: RunFile, prepared: Prepared, hear: Hear) -> Generator[Hired]:
    watcher, floor = _Attendant(hear), Team.builtin()
    with staffed(session, run, prepared, current_budget(run), floor, watcher) as team:
        yield Hired(team, watcher.cancel)


def _withdraw(run: RunFile) -> None:
    """Takes the bundle of a kernel back whose acceptance was undone; the run file keeps it all."""
    shutil.rmtree(run.folder / BUNDLE, ignore_errors=True)
    run.event(WITHDRAWN)


def _publish(judge: Judge, run: RunFile, verdict: Verdict, design: int, explanation: str) -> str:
    """Writes the bundle of the kernel that a person accepts; says where it lies."""
    prepared = run.recall("prepared", Prepared)
    assert prepared is not None
    finish = Finish(verdict.outcome, "accepted", verdict, design, True, explanation)
    report = build_report(run, judge, prepared, finish)
    folder = run.folder / BUNDLE
    write_bundle(folder, report, run.header.task, prepared, verdict.evaluation.candidate)
    run.event("finished", outcome=finish.outcome, reason=finish.reason)
    return f"the bundle is in {folder}"


def _search(settings: Settings, question: str) -> list[tuple[str, str]]:
    try:
        library = open_library(settings)
    except MaxkernelError:
        return []
    try:
        return [(hit.title, hit.excerpt) for hit in library.search_docs(question, PASSAGES)]
    finally:
        library.close()
