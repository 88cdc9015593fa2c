"""Every decision follows from the results that were applied before it, whoever makes it.

A finished search is taken up again from each of its stored decisions, as after a kill that lost
all that was under way. The next decision must be the one that the undisturbed search made.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from graph_world import REWRITING, TEAM, World, context_of, open_run

from maxkernel.modes import run_graph
from maxkernel.search.driver import Driver
from maxkernel.search.job import CHOICE, RESULT, Job, JobResult
from maxkernel.search.options import options_of
from maxkernel.search.policies import POLICIES
from maxkernel.search.settings import SearchSettings
from maxkernel.store import RunFile
from maxkernel.types import Budget

BUDGET = Budget(candidates=24, patience=100)
LONG = Budget(candidates=80, patience=100)
TEAMS = {"written": TEAM, "rewritten": REWRITING}
"""Whose moves must be written by somebody, and whose sources come with some of the moves."""


class Next(Exception):
    """The first decision that is not stored."""

    def __init__(self, job: Job) -> None:
        self.job = job


class Asked(Driver):
    """Stops at the first decision that it makes itself."""

    def _choose(self, number: int) -> Job:
        raise Next(super()._choose(number))


def choices(run: RunFile) -> list[Job]:
    """All stored decisions."""
    found: list[Job] = []
    while (job := run.recall(f"{CHOICE}{len(found)}", Job)) is not None:
        found.append(job)
    return found


def cut(whole: RunFile, jobs: list[Job], applied: int, part: RunFile) -> None:
    """Writes what the file held when `jobs` were decided and the first `applied` applied."""
    for intent in whole.intents():
        part.add_intent(intent)
    for job in jobs:
        part.remember(f"{CHOICE}{job.number}", job)
    for job in jobs[:applied]:
        result = whole.recall(f"{RESULT}{job.number}", JobResult)
        if result is None:
            continue
        part.remember(f"{RESULT}{job.number}", result)
        design, evaluation = whole.design(job.node), whole.evaluation(result.candidate)
        if result.written and design is not None:
            part.add_design(design)
        if evaluation is not None and not (result.same_as or result.misfit):
            part.add_evaluation(job.node, evaluation)


class Looking(Driver):
    """Compares what the board keeps with what it would work out anew, before every decision."""

    def _choose(self, number: int) -> Job:
        board = self.board
        for node in board.graph:
            constants = board.constants.get(node.id)
            asked = node.id in board.asked
            fresh = options_of(board.graph, node, constants, asked, board.scale)
            assert board.of(node.id) == fresh, f"node {node.id} before decision {number}"
        return super()._choose(number)


@pytest.mark.parametrize("team", TEAMS)
@pytest.mark.parametrize("policy", POLICIES)
def test_a_search_is_taken_up_at_every_decision(policy: str, team: str, tmp_path: Path) -> None:
    settings = SearchSettings(policy)
    with open_run(tmp_path / "whole", BUDGET) as run:
        run_graph(context_of(run, World(), BUDGET, team=TEAMS[team]), settings)
    with RunFile.read(tmp_path / "whole") as whole:
        jobs = choices(whole)
        assert len(jobs) > BUDGET.candidates
        for number in range(1, len(jobs)):
            with open_run(tmp_path / str(number), BUDGET) as part:
                context = context_of(part, World(), BUDGET, team=TEAMS[team])
                with part.batch():
                    cut(whole, jobs[:number], max(0, number - settings.width), part)
                with pytest.raises(Next) as found:
                    Asked(context, settings).drive()
            assert found.value.job == jobs[number], f"decision {number}"


@pytest.mark.parametrize("team", TEAMS)
@pytest.mark.parametrize("policy", POLICIES)
def test_what_could_be_done_is_never_out_of_date(policy: str, team: str, tmp_path: Path) -> None:
    with open_run(tmp_path / "r", LONG) as run:
        context = context_of(run, World(), LONG, team=TEAMS[team])
        assert Looking(context, SearchSettings(policy)).drive() in ("budget", "no plan")
