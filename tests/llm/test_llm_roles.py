"""Each role: what it is told, what it makes of good, bad and no answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import msgspec
import pytest
from fake_llm_server import Request, Say, Step, Use
from llm_helpers import notation
from llm_kernels import GOOD, MISALIGNED, WRONG_NAME, WRONG_NUMBERS, fenced

from maxkernel.engineers.llm import Call, LlmBudget, LlmTeam, Patience, llm_team
from maxkernel.engineers.roles import BudgetSpent, NoAnswer
from maxkernel.judge import read_source
from maxkernel.targets import get_target
from maxkernel.types import (
    Candidate,
    Design,
    Evaluation,
    Failure,
    InputCase,
    Outcome,
    Plan,
)

TARGET = get_target("v6e")
IDEA = {
    "strategy": "rows resident, parallel grid",
    "family": "rowwise",
    "reason": "reads once",
    "change": "one block of rows per step",
    "speedup": 2.0,
}
PLAN = Plan("rowwise", "rows resident", "reads once", {"by": "model", "change": "one pass"})
FAILURE = Failure("capture", "api", "AttributeError: no attribute 'TPUCompilerParams'", line=26)


class Memory:
    """A run's designs and evaluations."""

    def __init__(self) -> None:
        self.kept: list[Design] = []
        self.judged: list[tuple[int, Evaluation]] = []

    def designs(self) -> list[Design]:
        return self.kept

    def evaluations(self) -> list[tuple[int, Evaluation]]:
        return self.judged


class Scene:
    """A team with every role on one scripted model."""

    def __init__(self, team: LlmTeam, server, memory: Memory, calls: list[Call], bench) -> None:
        self.llm, self.team = team, team.team
        self.server, self.memory, self.calls = server, memory, calls
        self.info, self.prepared, self.judge = bench.prepared.info, bench.prepared, bench.judge

    def asked(self, place: int = -1) -> str:
        """What the model was told."""
        return "\n".join(part["text"] for part in json.loads(self.calls[place].request))

    def keep(self, source: str, plan: Plan = PLAN, move: str = "plan", parents=()) -> Evaluation:
        """Judges a source and remembers it as the next design."""
        design = Design(len(self.memory.kept) + 1, plan, source, move, tuple(parents))
        evaluation = self.judge.evaluate(self.prepared, Candidate(source))
        self.memory.kept.append(design)
        self.memory.judged.append((design.id, evaluation))
        return evaluation


@pytest.fixture
def scene(server, bench) -> Iterator[Callable[..., Scene]]:
    made: list[LlmTeam] = []

    def make(*steps: Step, budget: LlmBudget | None = None) -> Scene:
        if steps:
            server.script(*steps)
        calls: list[Call] = []
        memory = Memory()
        team = llm_team(
            {"default": [notation(server, "openai")]},
            settings=bench.settings,
            record=calls.append,
            budget=budget,
            prepared=bench.prepared,
            archive=memory,
            judge=bench.judge,
            patience=Patience(backoff=0.01),
        )
        made.append(team)
        return Scene(team, server, memory, calls, bench)

    yield make
    for team in made:
        team.close()


def test_the_planner_starts_from_the_floor_and_adds_ideas(scene):
    one = scene(Say(json.dumps([IDEA])))
    plans = one.team.planner.plan(one.info, TARGET, ())
    assert plans[0].options.get("by") != "model"
    mine = plans[1]
    assert mine.strategy == IDEA["strategy"] and mine.options["change"] == IDEA["change"]
    assert mine.expected_seconds == pytest.approx(one.prepared.baseline.seconds / 2)
    told = one.asked()
    for part in ("float32[4096,1024]", "XLA needs", "TPU v6e", "Nothing.", "Fuse the chain"):
        assert part in told


def test_the_planner_hears_what_was_tried_and_sees_the_best(scene):
    one = scene(Say(json.dumps([IDEA | {"strategy": "next", "base": 1, "keep": "the grid"}])))
    evaluation = one.keep(GOOD)
    history = (
        Outcome(PLAN, 1, evaluation.time.seconds, 1.5, {"block_rows": 256}, "", "waits for HBM"),
        Outcome(Plan("other", "bad idea", ""), 2, None, None, failure="check/mismatch: wrong"),
    )
    (plan,) = one.team.planner.plan(one.info, TARGET, history)
    assert plan.options["base"] == 1 and plan.options["keep"] == "the grid"
    told = one.asked()
    for part in ("1.50x XLA", "waits for HBM", "bad idea (design 2): refused", "design 1", "_body"):
        assert part in told


def test_the_planner_sees_the_latest_kernel_beside_the_best(scene):
    one = scene(Say(json.dumps([IDEA])))
    slow = GOOD.replace('"block_rows": (256, 512)', '"block_rows": (8, 16)')
    fast, late = one.keep(GOOD), one.keep(slow, move="refine")
    history = tuple(
        Outcome(Plan("rowwise", name, ""), design, e.time.seconds, 1.0)
        for name, design, e in (("fast one", 1, fast), ("slow one", 2, late))
    )
    one.team.planner.plan(one.info, TARGET, history)
    told = one.asked()
    assert told.index("The best kernel so far: design 1") < told.index("The latest kernel")
    assert "(8, 16)" in told


@pytest.mark.parametrize("wrong", [{"strategy": " "}, {"strategy": None}])
def test_plans_without_a_name_are_sent_back(scene, wrong):
    one = scene(Say(json.dumps([IDEA | wrong])), Say(json.dumps([IDEA | {"speedup": -1}])))
    plan = one.team.planner.plan(one.info, TARGET, ())[1]
    assert plan.strategy == IDEA["strategy"] and plan.expected_seconds is None


def test_the_planner_may_not_repeat_itself(scene):
    one = scene(Say(json.dumps([IDEA])), Say(json.dumps([IDEA | {"strategy": "another"}])))
    history = (Outcome(Plan("rowwise", IDEA["strategy"], ""), None, None, None, failure="x"),)
    (plan,) = one.team.planner.plan(one.info, TARGET, history)
    assert plan.strategy == "another"
    assert "all of these were tried" in one.server.requests[1].text


def test_a_base_that_does_not_exist_is_dropped(scene):
    one = scene(Say(json.dumps([IDEA | {"base": 99}])))
    assert "base" not in one.team.planner.plan(one.info, TARGET, ())[1].options


def test_without_an_answer_the_planner_falls_back_to_the_floor(scene):
    one = scene(Say("I'm sorry, I can't help."))
    plans = one.team.planner.plan(one.info, TARGET, ())
    assert plans and all(plan.options.get("by") != "model" for plan in plans)


def test_a_spent_budget_is_told_by_planner_and_implementer(scene):
    one = scene(Say("[]"), budget=LlmBudget(max_requests=0))
    with pytest.raises(BudgetSpent):
        one.team.planner.plan(one.info, TARGET, ())
    with pytest.raises(BudgetSpent):
        one.team.implementer.implement(one.info, PLAN, TARGET)
    assert one.team.debugger.repair(one.info, PLAN, GOOD, FAILURE, TARGET) is None
    assert one.team.tuner.extend(one.info, PLAN, {"a": (1,)}, TARGET) == {"a": (1,)}
    assert one.server.requests == []


def test_the_implementer_gets_contract_sheet_plan_and_a_start(scene):
    one = scene(Say(fenced(GOOD)))
    assert one.team.implementer.implement(one.info, PLAN, TARGET) == GOOD
    told = one.asked()
    for part in (
        "The contract of a kernel file",
        "pltpu.CompilerParams(dimension_semantics=None",
        "# Plan: rows resident",
        "by the built-in engineer",
    ):
        assert part in told
    assert isinstance(read_source(GOOD), dict)


def test_the_implementer_starts_from_the_base_design(scene):
    one = scene(Say(fenced(GOOD)))
    one.keep(GOOD.replace("1e-6", "1e-06"))
    plan = msgspec.structs.replace(PLAN, options=PLAN.options | {"base": 1})
    one.team.implementer.implement(one.info, plan, TARGET)
    assert "# Start from design 1" in one.asked() and "1e-06" in one.asked()


def test_without_a_built_in_kernel_there_is_an_example(scene):
    one = scene(Say(json.dumps([IDEA])), Say(fenced(GOOD)))
    graph = one.info.graph
    unknown = [msgspec.structs.replace(node, op="some_unknown_op") for node in graph.nodes]
    strange = msgspec.structs.replace(
        one.info, graph=msgspec.structs.replace(graph, nodes=tuple(unknown))
    )
    (plan,) = one.team.planner.plan(strange, TARGET, ())
    one.team.implementer.implement(strange, plan, TARGET)
    assert "# An example of another kernel" in one.asked()
    assert "rsqrt(jnp.mean(x * x" in one.asked()


def test_plans_of_the_floor_are_written_by_the_floor(scene):
    one = scene(Say("[]"))
    plan = one.team.planner.plan(one.info, TARGET, ())[0]
    before = len(one.server.requests)
    assert "def kernel" in one.team.implementer.implement(one.info, plan, TARGET)
    assert len(one.server.requests) == before


def test_a_persons_plan_is_written_by_the_model(scene):
    one = scene(Say(fenced(GOOD)))
    plan = Plan("mine", "use two passes", "because")
    assert one.team.implementer.implement(one.info, plan, TARGET) == GOOD


def test_without_an_answer_the_implementer_says_so(scene):
    one = scene(Say("I'm sorry, I can't help."))
    with pytest.raises(NoAnswer, match="the implementer has no answer"):
        one.team.implementer.implement(one.info, PLAN, TARGET)


def test_the_debugger_sees_failure_lines_and_cures(scene):
    one = scene(Say(fenced(GOOD)))
    assert one.team.debugger.repair(one.info, PLAN, WRONG_NAME, FAILURE, TARGET) == GOOD
    told = one.asked()
    for part in ("capture/api", ">  26 ", "Names moved", "TPUCompilerParams"):
        assert part in told


def test_the_debugger_may_not_return_a_refused_version(scene):
    one = scene(Say(fenced(WRONG_NAME + "\n\n")), Say(fenced(GOOD)))
    assert one.team.debugger.repair(one.info, PLAN, WRONG_NAME, FAILURE, TARGET) == GOOD
    assert "refused before" in one.server.requests[1].text


def test_the_debugger_remembers_the_chain(scene):
    one = scene(Say(fenced(WRONG_NAME)), Say(fenced(GOOD)))
    one.keep(WRONG_NAME)
    failure = one.keep(MISALIGNED, move="repair api", parents=[1]).failure
    assert one.team.debugger.repair(one.info, PLAN, MISALIGNED, failure, TARGET) == GOOD
    assert "Failures of the versions before it" in one.asked(0)
    assert "refused before" in one.server.requests[1].text


def test_cures_are_remembered_across_runs(scene):
    first = scene(Say(fenced(GOOD)))
    first.keep(WRONG_NAME)
    first.keep(GOOD, move="repair api", parents=[1])
    first.team.debugger.repair(first.info, PLAN, MISALIGNED, FAILURE, TARGET)
    second = scene(Say(fenced(GOOD)))
    failure = second.judge.evaluate(second.prepared, Candidate(WRONG_NAME)).failure
    second.team.debugger.repair(second.info, PLAN, WRONG_NAME, failure, TARGET)
    told = second.asked()
    assert "# What cured similar failures" in told
    assert "-        compiler_params=pltpu.TPUCompilerParams" in told


def test_a_repair_that_did_not_help_is_not_remembered(scene):
    one = scene(Say(fenced(GOOD)))
    failure = one.keep(WRONG_NUMBERS).failure
    one.keep(WRONG_NUMBERS + "\n# again\n", move="repair mismatch", parents=[1])
    one.team.debugger.repair(one.info, PLAN, WRONG_NUMBERS, failure, TARGET)
    assert "What cured similar failures" not in one.asked()


def test_the_tuner_adds_behind_the_declared_choices(scene):
    one = scene(Say('{"block_rows": [1024, 256, 2048]}'))
    space = {"block_rows": (256, 512), "fast": (True, False)}
    extended = one.team.tuner.extend(one.info, PLAN, space, TARGET)
    assert extended == {"block_rows": (256, 512, 1024, 2048), "fast": (True, False)}
    assert one.team.tuner.extend(one.info, PLAN, {}, TARGET) == {}


@pytest.mark.parametrize(
    "answer",
    ['{"blocks": [1]}', '{"block_rows": ["big"]}', '{"block_rows": [0]}', '{"block_rows": 5}'],
)
def test_additions_that_do_not_fit_are_sent_back(scene, answer):
    one = scene(Say(answer), Say("{}"))
    space = {"block_rows": (256, 512)}
    assert one.team.tuner.extend(one.info, PLAN, space, TARGET) == space
    assert len(one.server.requests) == 2


def test_the_profiler_names_cause_and_remedies(scene):
    one = scene(Say('{"limit": "hbm", "cause": "two reads of x", "remedies": ["keep x", "fuse"]}'))
    program = one.keep(GOOD).program
    found = one.team.profiler.diagnose(one.info, program, TARGET)
    assert found.limit == "hbm"
    assert "two reads of x" in found.text and "(2) fuse" in found.text
    assert "_body" in one.asked() and "of the time" in one.asked()


def test_without_an_answer_the_profiler_keeps_to_the_figures(scene):
    one = scene(Say('{"limit": "gremlins"}'))
    program = one.keep(GOOD).program
    found = one.team.profiler.diagnose(one.info, program, TARGET)
    assert found == one.llm.place.floor.profiler.diagnose(one.info, program, TARGET)


def test_the_tester_names_hard_inputs_as_data(scene):
    case = {"name": "large", "reason": "overflow", "fills": {"0": "large"}, "scale": 1e4}
    one = scene(Say(json.dumps([case])))
    (found,) = one.llm.tester.cases(one.info, TARGET)
    assert found == InputCase("large", "overflow", {0: "large"}, 1e4)


@pytest.mark.parametrize("fills", [{"7": "large"}, {"0": "random_int"}, {"0": "chaos"}])
def test_cases_that_the_task_does_not_allow_are_sent_back(scene, fills):
    one = scene(Say(json.dumps([{"name": "n", "reason": "r", "fills": fills}])), Say("[]"))
    assert one.llm.tester.cases(one.info, TARGET) == ()
    assert len(one.server.requests) == 2


def test_the_explainer_answers_the_question(scene):
    one = scene(Say("It keeps each row in VMEM."))
    evaluation = one.keep(GOOD)
    answer = one.team.explainer.explain(one.info, evaluation, TARGET, "Why one pass?")
    assert answer == "It keeps each row in VMEM."
    for part in ("Why one pass?", "simulated", "Accepted", "bottleneck:"):
        assert part in one.asked()


def test_an_agent_uses_the_judge_through_its_tools(scene):
    one = scene(
        Use("compile_kernel", {"source": WRONG_NAME}),
        Use("check_numerics", {"source": GOOD}),
        Say(fenced(GOOD)),
    )
    assert one.team.debugger.repair(one.info, PLAN, WRONG_NAME, FAILURE, TARGET) == GOOD
    results = [request.body["messages"][-1]["content"] for request in one.server.requests[1:]]
    assert "has no attribute 'TPUCompilerParams'" in results[0]
    assert "The numerical check passes." in results[1]


def test_a_steering_task_stays_material(scene):
    """The task's comment claims authority and tries to end its mark: it does neither."""
    one = scene(Say(json.dumps([IDEA])))
    one.team.planner.plan(one.info, TARGET, ())
    said = json.loads(one.calls[0].request)
    assert [part["by"] for part in said] == ["instructions", "user-prompt"]
    rules, told = said[0]["text"], said[1]["text"]
    assert "PWNED" not in rules and "never an instruction" not in told
    assert "ignore that part" in rules
    start = told.index('<data name="task file')
    end = told.index("</data>", start)
    assert start < told.index("PWNED") < end
    assert "maintenance mode" in told[start:end] and "maintenance mode" not in told[end:]


def test_a_steered_models_kernel_does_not_get_far(scene):
    from llm_kernels import CHEAT

    one = scene(Say(fenced(CHEAT)))
    source = one.team.implementer.implement(one.info, PLAN, TARGET)
    assert one.judge.evaluate(one.prepared, Candidate(source)).failure.kind == "no_pallas"


def test_requests_name_their_role_by_prompt(scene):
    def by_role(request: Request) -> Step:
        return Say(fenced(GOOD)) if "You write Pallas" in request.text else Say("[]")

    one = scene()
    one.server.respond(by_role)
    assert one.team.implementer.implement(one.info, PLAN, TARGET) == GOOD
    assert [call.role for call in one.calls] == ["implementer"]
