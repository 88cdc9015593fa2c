"""Opens pairing sessions: a new run, or any run taken up by a person; and the engine for it."""

from __future__ import annotations

from pathlib import Path

from maxkernel.api.runs import BUNDLE, check_versions, create_run, current_budget
from maxkernel.api.session import Session
from maxkernel.api.team import Models, staffed
from maxkernel.config import Settings
from maxkernel.engineers.llm import chosen_models
from maxkernel.engineers.team import Team
from maxkernel.errors import MaxkernelError
from maxkernel.judge import Judge, Prepared
from maxkernel.knowledge.library import open_library
from maxkernel.modes import Finish
from maxkernel.modes.pair import Approve, PairEngine, PairSession
from maxkernel.report import build_report, write_bundle
from maxkernel.store import RunFile
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
    return PairEngine(
        folder,
        session.judge,
        lambda run, prepared: staffed(session, run, prepared, current_budget(run), Team.builtin()),
        session.settings.workers,
        lambda run, verdict, design, why: _publish(session.judge, run, verdict, design, why),
        lambda question: _search(session.settings, question),
    )


def _publish(judge: Judge, run: RunFile, verdict: Verdict, design: int, explanation: str) -> str:
    """Writes the bundle of the kernel that a person accepts; says where it lies."""
    prepared = run.recall("prepared", Prepared)
    assert prepared is not None
    outcome = "faster" if verdict.faster else "xla"
    finish = Finish(outcome, "accepted", verdict, design, True, explanation)
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
