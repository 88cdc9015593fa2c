"""Opens pairing sessions: a new run, or any run taken up by a person; and the engine for it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from maxkernel.api.runs import BUNDLE, check_versions, create_run
from maxkernel.api.session import Session
from maxkernel.config import Settings
from maxkernel.engineers.llm.budget import LlmBudget
from maxkernel.engineers.llm.staff import chosen_models, team_for_run
from maxkernel.engineers.team import Team
from maxkernel.errors import MaxkernelError
from maxkernel.judge import Judge, Prepared
from maxkernel.knowledge.library import open_library
from maxkernel.modes import Finish
from maxkernel.modes.pair import Approve, PairEngine, PairSession
from maxkernel.report import build_report, write_bundle
from maxkernel.store import RunFile
from maxkernel.types import Budget, Task, Verdict

HIRED = "team"
"""Kind of the events that say who works on a run."""

PASSAGES = 3
"""Passages of the guide that a built-in answer quotes."""


class Hiring(msgspec.Struct, frozen=True):
    """Which models fill the team, and what they may spend. No key is ever in it."""

    models: dict[str, tuple[str, ...]] = {}
    """By role, or under `default`; without any, the built-in team works."""
    budget: LlmBudget = LlmBudget()


def start_pair(
    session: Session,
    task: Task,
    budget: Budget,
    approve: Approve = "all",
    hiring: Hiring | None = None,
) -> Path:
    """The folder of a new run for a pairing session. Nothing is judged yet."""
    if hiring is not None:
        chosen_models(hiring.models)
    with create_run(session, task, budget, "pair") as run:
        folder = run.folder
        if hiring is not None:
            choose_team(run, hiring)
    if approve != "all":
        client = PairSession(folder, "terminal")
        client.set_approve(approve)
        client.close()
    return folder


def choose_team(run: RunFile, hiring: Hiring) -> None:
    """From its next engine on, the run's team is this one."""
    chosen_models(hiring.models)
    run.event(HIRED, hiring=msgspec.to_builtins(hiring))


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
        lambda run, prepared: _hire(session, run, prepared),
        session.settings.workers,
        lambda run, verdict, design, why: _publish(session.judge, run, verdict, design, why),
        lambda question: _search(session.settings, question),
    )


@contextmanager
def _hire(session: Session, run: RunFile, prepared: Prepared) -> Generator[Team]:
    """The team that was chosen last for a run."""
    events = [event for event in run.events() if event.kind == HIRED]
    hiring = msgspec.convert(events[-1].body["hiring"], Hiring) if events else Hiring()
    if not hiring.models:
        yield Team.builtin()
        return
    with team_for_run(
        hiring.models, run, session.judge, prepared, session.settings, budget=hiring.budget
    ) as found:
        yield found.team


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
