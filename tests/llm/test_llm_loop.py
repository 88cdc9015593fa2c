"""The closed loop with a scripted model that makes the usual mistakes before it gets it right."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_llm_server import Request, Say, Step
from kernels import GOOD, MISALIGNED, TOO_LARGE, WRONG_NAME, WRONG_NUMBERS, fenced
from llm_helpers import WIRES, notation

from maxkernel.engineers.llm import (
    LlmBudget,
    Patience,
    calls_of,
    llm_team,
    record_into,
    spent_by,
)
from maxkernel.modes import Finish, run_auto
from maxkernel.search import Context
from maxkernel.store import RunFile, RunHeader
from maxkernel.types import Budget, Design

REPAIRS = {"api": MISALIGNED, "block_shape": TOO_LARGE, "vmem": WRONG_NUMBERS}
"""The clumsy model's answer to each kind of failure: the next mistake."""


def clumsy(request: Request) -> Step:
    """Plans twice; the first kernel goes from mistake to mistake, the second one is good."""
    text = request.text
    if "You plan Pallas kernels" in text:
        if "second try (design" in text:
            return Say("[]")
        name = "second try" if "first try (design" in text else "first try"
        return Say(json.dumps([{"strategy": name, "reason": "fewer bytes", "change": "fuse"}]))
    if "You write Pallas kernels" in text:
        return Say(fenced(GOOD if "# Plan: second try" in text else WRONG_NAME))
    kind = next(kind for kind in REPAIRS if f"refused it: capture/{kind}" in text
                or f"refused it: compile/{kind}" in text)  # fmt: skip
    return Say(fenced(REPAIRS[kind]))


Drive = Callable[..., tuple[Finish, list[Design], RunFile]]


@pytest.fixture
def drive(bench, tmp_path) -> Drive:
    """Runs (or resumes) the loop in a folder with models for the roles that write."""

    def go(
        name: str, model: str, budget: LlmBudget | None = None, replay=None
    ) -> tuple[Finish, list[Design], RunFile]:
        folder = Path(tmp_path / name)
        limits = Budget(candidates=10, patience=2, roofline=1.0)
        if folder.exists():
            run = RunFile.resume(folder)
        else:
            task = bench.prepared.task
            run = RunFile.create(
                folder, RunHeader(name, task, "v6e", "auto", limits, {}, time.time())
            )
        with llm_team(
            {"planner": [model], "implementer": [model], "debugger": [model]},
            settings=bench.settings,
            record=record_into(run),
            budget=budget,
            spent=spent_by(calls_of(run)),
            prepared=bench.prepared,
            archive=run,
            judge=bench.judge,
            replay=replay,
            patience=Patience(backoff=0.01),
        ) as llm:
            context = Context(run, bench.judge, bench.prepared, llm.team, limits, 2)
            return run_auto(context), run.designs(), run

    return go


def mistakes_and_cure(run: RunFile) -> dict[str, str]:
    """What the judge said about each source, by the first line that tells them apart."""
    found = {e.candidate.source: e for _, e in run.evaluations()}
    return {
        name: (found[source].failure.kind if found[source].failure else "accepted")
        for name, source in {
            "wrong name": WRONG_NAME,
            "misaligned": MISALIGNED,
            "too large": TOO_LARGE,
            "wrong numbers": WRONG_NUMBERS,
            "good": GOOD,
        }.items()
        if source in found
    }


@pytest.mark.parametrize("wire", WIRES)
def test_the_loop_ends_with_an_accepted_kernel(server, drive, wire):
    server.respond(clumsy)
    finish, designs, run = drive("run", notation(server, wire))
    with run:
        assert finish.outcome == "faster" and finish.confirmed
        assert mistakes_and_cure(run) == {
            "wrong name": "api",
            "misaligned": "block_shape",
            "too large": "vmem",
            "wrong numbers": "mismatch",
            "good": "accepted",
        }
        moves = [d.move for d in designs if d.plan.strategy == "first try"]
        assert moves == ["plan", "repair api", "repair block_shape", "repair vmem"]
        roles = [call.role for call in calls_of(run)]
        assert roles.count("planner") >= 2 and roles.count("debugger") == 3
        assert spent_by(calls_of(run)).requests == len(server.requests) == len(roles)


def test_a_replayed_run_makes_the_same_designs(server, drive):
    server.respond(clumsy)
    _, designs, run = drive("recorded", notation(server, "openai"))
    with run:
        calls = calls_of(run)
    server.close()
    server.close = lambda: None
    _, again, second = drive("replayed", notation(server, "openai"), replay=calls)
    with second:
        replayed = calls_of(second)

    def plain(made: list[Design]) -> list[tuple]:
        return sorted((d.move, d.source, repr(d.plan)) for d in made)

    assert plain(again) == plain(designs)
    assert sorted(c.answer for c in replayed) == sorted(c.answer for c in calls)


def test_a_spent_budget_ends_the_run_and_stays_spent(server, drive):
    server.respond(clumsy)
    budget = LlmBudget(max_requests=3)
    finish, _, run = drive("run", notation(server, "openai"), budget)
    run.close()
    assert len(server.requests) == 3
    assert finish.outcome in ("faster", "xla")
    _, _, run = drive("run", notation(server, "openai"), budget)
    run.close()
    assert len(server.requests) == 3


def test_a_run_without_a_network_still_delivers_the_floor(server, drive):
    url = notation(server, "openai")
    server.close()
    server.close = lambda: None
    finish, designs, run = drive("run", url)
    with run:
        assert finish.best is not None
        assert all(d.plan.options.get("by") != "model" for d in designs)
        assert all(call.error.startswith("connection") for call in calls_of(run))
