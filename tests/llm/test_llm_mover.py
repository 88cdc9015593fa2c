"""The mover: steps from a kernel that works, merges, and a graph search that follows them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_llm_server import Request, Say, Step
from llm_helpers import notation
from llm_kernels import GOOD, fenced

from maxkernel.engineers.llm import Call, LlmTeam, Patience, calls_of, llm_team, team_for_run
from maxkernel.engineers.roles import NoAnswer
from maxkernel.modes import run_graph
from maxkernel.search import Context
from maxkernel.search.job import Steer
from maxkernel.search.settings import SearchSettings
from maxkernel.search.steer import say
from maxkernel.store import RunFile, RunHeader
from maxkernel.targets import get_target
from maxkernel.types import Budget, Candidate, Design, Diagnosis, Evaluation, Outcome, Plan

TARGET = get_target("v6e")
STEP = {
    "strategy": "two rows at once",
    "reason": "the vector unit idles",
    "change": "load two rows per step",
    "keep": "the grid",
    "speedup": 1.2,
}
PLAN = Plan("rowwise", "rows resident", "reads once", {"by": "model"})
WAITS = Diagnosis("hbm", "It waits for copies half of its time")
OTHER = GOOD.replace("(256, 512)", "(64, 128)")


class Shelf:
    """Two designs, the first one judged."""

    def __init__(self, evaluation: Evaluation) -> None:
        self.kept = [Design(1, PLAN, GOOD, "plan"), Design(2, PLAN, OTHER, "plan")]
        self.judged = [(1, evaluation)]

    def designs(self) -> list[Design]:
        return self.kept

    def evaluations(self) -> list[tuple[int, Evaluation]]:
        return self.judged


class Scene:
    """A team whose every role asks one scripted model."""

    def __init__(self, llm: LlmTeam, shelf: Shelf, calls: list[Call], bench) -> None:
        self.llm, self.shelf, self.calls, self.bench = llm, shelf, calls, bench

    def guided(self, partners: tuple[Design, ...] = (), history: tuple[Outcome, ...] = ()):
        mover = self.llm.team.mover
        info, (_, evaluation) = self.bench.prepared.info, self.shelf.judged[0]
        first = self.shelf.kept[0]
        return mover.guided(info, first, evaluation, WAITS, partners, history, TARGET)

    def told(self, place: int = -1) -> str:
        """What the model was told."""
        return "\n".join(part["text"] for part in json.loads(self.calls[place].request))


@pytest.fixture(scope="module")
def evaluation(bench) -> Evaluation:
    return bench.judge.evaluate(bench.prepared, Candidate(GOOD))


@pytest.fixture
def scene(server, bench, evaluation) -> Iterator[Scene]:
    calls: list[Call] = []
    shelf = Shelf(evaluation)
    llm = llm_team(
        {"default": [notation(server, "openai")]},
        settings=bench.settings,
        record=calls.append,
        prepared=bench.prepared,
        archive=shelf,
        patience=Patience(backoff=0.01),
    )
    with llm:
        yield Scene(llm, shelf, calls, bench)


def test_a_step_starts_from_its_design_and_rewrites_stand_beside_it(scene, server):
    server.script(Say(json.dumps([STEP])))
    moves, merges = scene.guided()
    first = moves[0]
    assert first.name == "refine: two rows at once" and first.source == "" and not merges
    assert first.gain == pytest.approx(0.182, abs=0.001)
    assert first.plan.options == {
        "by": "model",
        "base": 1,
        "change": "load two rows per step",
        "keep": "the grid",
    }
    builtin = scene.llm.place.floor.mover.moves(
        scene.bench.prepared.info, scene.shelf.kept[0], scene.shelf.judged[0][1], WAITS, TARGET
    )
    assert moves[1:] == builtin
    told = scene.told()
    for part in ("design 1", "pl.pallas_call", "It waits for copies", "% of the time", "TPU v6e"):
        assert part in told


def test_estimates_are_bounded(scene, server):
    server.script(Say(json.dumps([STEP | {"speedup": 40}, STEP | {"strategy": "b", "speedup": 0}])))
    moves, _ = scene.guided()
    assert [round(m.gain, 3) for m in moves[:2]] == [0.693, 0.05]


def test_a_merge_names_a_design_that_was_shown_and_its_implementer_sees_both(scene, server):
    server.script(Say(json.dumps([STEP | {"merge": 7}])), Say(json.dumps([STEP | {"merge": 2}])))
    _, merges = scene.guided(partners=(scene.shelf.kept[1],))
    assert "it may name: 2" in server.requests[1].text
    ((other, move),) = merges[:1]
    assert other.id == 2 and move.name == "merge: two rows at once"
    assert move.plan.options["with"] == 2
    server.script(Say(fenced(GOOD)))
    implementer = scene.llm.team.implementer
    assert implementer.implement(scene.bench.prepared.info, move.plan, TARGET) == GOOD
    told = scene.told()
    assert "Start from design 1" in told and "Take from design 2" in told and "(64, 128)" in told


def test_what_was_tried_from_this_design_is_not_tried_again(scene, server):
    tried = Outcome(Plan("rowwise", "Two rows at once", "", {"base": 1}), 3, 1e-5, 1.0)
    hint = Outcome(Plan("hint", "keep scale in SMEM", "a person's hint"), None, None, None)
    server.script(Say(json.dumps([STEP])), Say(json.dumps([STEP | {"strategy": "new"}])))
    moves, _ = scene.guided(history=(tried, hint))
    assert moves[0].name == "refine: new"
    assert "all of these were tried" in server.requests[1].text
    assert "# From the person you work for\n\n- a person's hint: keep scale in SMEM" in (
        scene.told(0)
    )
    assert "keep scale in SMEM: refused" not in scene.told(0)


def test_without_an_answer_the_rewrites_remain(scene, server):
    server.script(Say("no idea"))
    floor = scene.llm.place.floor.mover
    info, (_, evaluation) = scene.bench.prepared.info, scene.shelf.judged[0]
    unknown = Diagnosis("unknown", "no schedule")
    design = scene.shelf.kept[0]
    known = floor.moves(info, design, evaluation, unknown, TARGET)
    mover = scene.llm.team.mover
    try:
        moves, _ = mover.guided(info, design, evaluation, unknown, (), (), TARGET)
    except NoAnswer:
        moves = []
    assert moves == known


def climber(request: Request) -> Step:
    """Plans a kernel with small blocks, then says that they should be larger."""
    text = request.text
    if "You plan Pallas kernels" in text:
        return Say("[]" if "small (design" in text else json.dumps([STEP | {"strategy": "small"}]))
    if "You improve Pallas kernels" in text:
        fresh = "larger blocks (design" not in text and "(8, 16)" in text
        return Say(json.dumps([STEP | {"strategy": "larger blocks"}] if fresh else []))
    if "You write Pallas kernels" in text:
        small = "# Plan: small" in text
        return Say(fenced(GOOD.replace("(256, 512)", "(8, 16)") if small else GOOD))
    return Say("{}")


def test_a_graph_search_follows_the_movers_steps_and_hears_hints(bench, server, tmp_path: Path):
    server.respond(climber)
    model, budget = notation(server, "openai"), Budget(candidates=7, patience=5, roofline=1.0)
    models = {role: [model] for role in ("planner", "implementer", "mover")}
    header = RunHeader("r", bench.prepared.task, "v6e", "graph", budget, {}, time.time())
    with RunFile.create(tmp_path / "run", header) as run:
        say(run, Steer("hint", 0, "larger blocks may help"))
        with team_for_run(models, run, bench.judge, bench.prepared, bench.settings) as llm:
            context = Context(run, bench.judge, bench.prepared, llm.team, budget, 2)
            run_graph(context, SearchSettings(width=2))
        designs, calls = run.designs(), calls_of(run)
        intents = {intent.move: intent for intent in run.intents()}
    step = intents["refine: larger blocks"]
    small = next(d for d in designs if d.plan.strategy == "small")
    assert step.parents == (small.id,)
    assert any(d.source == GOOD and d.parents == (small.id,) for d in designs)
    asked = [call for call in calls if call.role == "mover"]
    assert asked and all("- a person's hint" in call.request for call in asked)
    assert "larger blocks may help" in next(c for c in calls if c.role == "planner").request


def test_who_moves(server, bench):
    model = notation(server, "openai")

    def mover(models) -> str:
        with llm_team(models, settings=bench.settings, record=lambda _: None) as llm:
            return type(llm.team.mover).__name__

    assert mover({"default": [model]}) == "LlmMover"
    assert mover({"planner": [model]}) == "NoneType"
    assert mover({"planner": [model], "mover": ["builtin"]}) == "BuiltinMover"
    assert mover({"implementer": [model]}) == "BuiltinMover"
