"""The closed loop with a scripted model that makes the usual mistakes before it gets it right."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator

import pytest
from fake_llm_server import FakeServer, Request, Say, Step
from llm_helpers import KEY, notation
from llm_kernels import GOOD, MISALIGNED, TOO_LARGE, WRONG_NAME, WRONG_NUMBERS, fenced

from maxkernel.engineers.llm import (
    Call,
    LlmBudget,
    Patience,
    calls_of,
    spent_by,
    team_for_run,
)
from maxkernel.modes import Finish, run_auto
from maxkernel.search import Context
from maxkernel.store import RunFile, RunHeader
from maxkernel.types import Budget, Design, Evaluation

LIMITS = Budget(candidates=8, patience=2, roofline=1.0)

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


Run = tuple[Finish, list[Design], list[Call], list[Evaluation]]


@pytest.fixture(scope="module")
def drive(bench, tmp_path_factory) -> Callable[..., Run]:
    """Runs (or resumes) the loop in a folder, with models for the roles that write."""
    folders = tmp_path_factory.mktemp("runs")

    def go(name: str, model: str, limits: Budget, llm_budget=None, replay=None) -> Run:
        folder = folders / name
        if folder.exists():
            run = RunFile.resume(folder)
        else:
            task = bench.prepared.task
            run = RunFile.create(
                folder, RunHeader(name, task, "v6e", "auto", limits, {}, time.time())
            )
        with (
            run,
            team_for_run(
                {"planner": [model], "implementer": [model], "debugger": [model]},
                run,
                bench.judge,
                bench.prepared,
                bench.settings,
                budget=llm_budget,
                replay=replay,
                patience=Patience(backoff=0.01),
            ) as llm,
        ):
            context = Context(run, bench.judge, bench.prepared, llm.team, limits, 2)
            finish = run_auto(context)
            return finish, run.designs(), calls_of(run), [e for _, e in run.evaluations()]

    return go


@pytest.fixture(scope="module")
def first(drive) -> Iterator[tuple[Run, int]]:
    """The clumsy model's run, and how many requests its server saw."""
    server = FakeServer()
    server.respond(clumsy)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("OPENAI_API_KEY", KEY)
            run = drive("first", notation(server, "openai"), LIMITS)
        yield run, len(server.requests)
    finally:
        server.close()


def verdicts(evaluations: list[Evaluation]) -> dict[str, str]:
    """What the judge said about each of the model's sources."""
    found = {e.candidate.source: e for e in evaluations if not e.candidate.tunables}
    sources = {
        "wrong name": WRONG_NAME,
        "misaligned": MISALIGNED,
        "too large": TOO_LARGE,
        "wrong numbers": WRONG_NUMBERS,
        "good": GOOD,
    }
    return {
        name: (found[source].failure.kind if found[source].failure else "accepted")
        for name, source in sources.items()
        if source in found
    }


def test_the_loop_ends_with_an_accepted_kernel(first):
    (finish, designs, calls, evaluations), requests = first
    assert finish.outcome == "faster" and finish.confirmed
    assert verdicts(evaluations) == {
        "wrong name": "api",
        "misaligned": "block_shape",
        "too large": "vmem",
        "wrong numbers": "mismatch",
        "good": "accepted",
    }
    moves = [d.move for d in designs if d.plan.strategy == "first try"]
    assert moves == ["plan", "repair api", "repair block_shape", "repair vmem"]
    roles = [call.role for call in calls]
    assert roles.count("planner") >= 2 and roles.count("debugger") == 3
    assert spent_by(calls).requests == requests == len(roles)


def test_a_replayed_run_makes_the_same_designs(first, drive):
    (_, designs, calls, _), _ = first
    _, again, replayed, _ = drive("replayed", calls[0].model, LIMITS, replay=calls)

    def plain(made: list[Design]) -> list[tuple[str, str, str]]:
        return sorted((d.move, d.source, repr(d.plan)) for d in made)

    assert plain(again) == plain(designs)
    assert sorted(c.answer for c in replayed) == sorted(c.answer for c in calls)


def test_a_spent_budget_ends_the_run_and_stays_spent(server, drive):
    server.respond(clumsy)
    model, limits = notation(server, "openai"), Budget(candidates=4)
    for _ in range(2):
        finish, *_ = drive("spent", model, limits, LlmBudget(max_requests=2))
        assert len(server.requests) == 2
    assert finish.best is not None


def test_a_run_without_a_network_still_delivers_the_floor(drive):
    model, tokens = "http://127.0.0.1:9/v1#nobody", LlmBudget(max_tokens=100_000)
    finish, designs, calls, _ = drive("offline", model, Budget(candidates=2), tokens)
    assert finish.best is not None
    assert all(d.plan.options.get("by") != "model" for d in designs)
    assert calls and all(call.error.startswith("connection") for call in calls)
