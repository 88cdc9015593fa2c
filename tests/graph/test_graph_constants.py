"""Which constants are judged next: a corrected model, and what relatives found out."""

from __future__ import annotations

import math

import pytest

from maxkernel.search.constants import Constants
from maxkernel.search.graph import DesignGraph, Node
from maxkernel.search.job import Ranked
from maxkernel.search.options import Scale, gain_of, promise_of
from maxkernel.search.spaces import nearest
from maxkernel.search.surrogate import Evidence, Space, plane
from maxkernel.types import Candidate, Evaluation, Failure, Intent, Plan, Time, Tunable

SPACE: dict[str, tuple[Tunable, ...]] = {"m": (256, 64, 128, 512, 1024), "n": (256, 128, 512, 1024)}
PLAN = Plan("f", "s", "")


def flat(assignment: dict[str, Tunable]) -> float:
    """A model that prefers small blocks a little."""
    return 1e-5 * (1 + 1e-4 * float(assignment["m"]))


def valley(assignment: dict[str, Tunable]) -> float:
    """The truth: large `n` is good, and the best `m` is 512."""
    m, n = math.log2(float(assignment["m"])), math.log2(float(assignment["n"]))
    return 1e-5 * math.exp(0.1 * abs(m - 9) - 0.15 * (n - 8))


def constants_of(count: int = 20) -> Constants:
    ranked = [Ranked(a, flat(a)) for a in nearest(SPACE, count)]
    return Constants(SPACE, tuple(sorted(ranked, key=lambda r: r.estimate)), count)


def judge(graph: DesignGraph, id: int, tunables: dict[str, Tunable], seconds: float | None) -> None:
    graph.add_evaluation(
        id,
        Evaluation(
            Candidate(f"source {id}", tunables), "t", "v6e", "none",
            artifact=f"{id} {tunables}",
            time=Time(seconds, "simulated") if seconds else None,
            failure=None if seconds else Failure("compile", "vmem", "too large"),
        ),
    )  # fmt: skip


def climb(graph: DesignGraph, node: Node, constants: Constants, trials: int) -> list[float]:
    """Judges what is proposed; every assignment is proposed once."""
    times: list[float] = []
    kin = [graph[p] for p in node.intent.parents]
    for _ in range(trials):
        found = constants.next(node, kin)
        if found is None:
            break
        judge(graph, node.id, found[0], valley(found[0]))
        times.append(valley(found[0]))
    return times


def test_a_wrong_model_is_corrected_within_a_few_trials() -> None:
    graph, constants = DesignGraph(), constants_of()
    node = graph.add_intent(Intent(1, PLAN, "plan"))
    judge(graph, 1, {}, valley({"m": 256, "n": 256}))
    times = climb(graph, node, constants, 8)
    optimum = min(valley(a) for a in nearest(SPACE, 20))
    assert min(times) == pytest.approx(optimum)


def test_every_assignment_is_proposed_once() -> None:
    graph, constants = DesignGraph(), constants_of()
    node = graph.add_intent(Intent(1, PLAN, "plan"))
    judge(graph, 1, {}, 1e-5)
    assert len(climb(graph, node, constants, 100)) == 19
    assert len({repr(sorted(t.tunables.items())) for t in node.trials}) == 20


def test_what_was_looked_at_and_dropped_is_not_proposed() -> None:
    graph = DesignGraph()
    node = graph.add_intent(Intent(1, PLAN, "plan"))
    judge(graph, 1, {}, 1e-5)
    small = [Ranked(a, flat(a)) for a in nearest(SPACE, 20) if a["m"] != 512]
    constants = Constants(SPACE, tuple(small), 20)
    while (found := constants.next(node)) is not None:
        assert found[0]["m"] != 512
        judge(graph, 1, found[0], 1e-5)


def test_a_child_does_not_repeat_its_parents_failures() -> None:
    graph = DesignGraph()
    parent = graph.add_intent(Intent(1, PLAN, "plan"))
    judge(graph, 1, {}, valley({"m": 256, "n": 256}))
    climb(graph, parent, constants_of(), 19)
    child = graph.add_intent(Intent(2, PLAN, "refine", (1,), source="x"))
    assert parent.best is not None
    start = {"m": 256, "n": 256}
    judge(graph, 2, dict(start), 0.9 * valley(dict(start)))
    (first,) = climb(graph, child, constants_of(), 1)
    assert first == parent.seconds


def test_a_refusal_by_a_relative_counts_as_slow() -> None:
    graph = DesignGraph()
    graph.add_intent(Intent(1, PLAN, "plan"))
    judge(graph, 1, {}, 1e-5)
    judge(graph, 1, {"m": 64, "n": 256}, None)
    child = graph.add_intent(Intent(2, PLAN, "refine", (1,), source="x"))
    judge(graph, 2, {}, 1e-5)
    found = constants_of().next(child, [graph[1]])
    assert found is not None and found[0] != {"m": 64, "n": 256}


def test_the_plane_is_ridge_regression() -> None:
    """Against the closed form for one slope."""
    space = Space({"m": SPACE["m"]}, [Ranked({"m": m}, 1.0) for m in SPACE["m"]])
    graph = DesignGraph()
    node = graph.add_intent(Intent(1, PLAN, "plan"))
    for m in (256, 512, 1024):
        judge(graph, 1, {"m": m}, math.exp(0.3 * math.log2(m)))
    evidence = Evidence(space)
    evidence.take(node.trials)
    base, (slope,) = plane([(evidence, 0.0)])
    assert slope == pytest.approx(0.3 * 2 / (2 + 1))
    assert base + slope * 9 == pytest.approx(0.3 * 9)


@pytest.mark.parametrize(("factor", "kept"), [(1.0, 0.025), (0.5, (0.05 + math.log(2)) / 2)])
def test_a_move_is_expected_to_do_what_it_did_here(factor: float, kept: float) -> None:
    graph = DesignGraph()
    for id in (1, 2):
        graph.add_intent(Intent(id, PLAN, "plan"))
        judge(graph, id, {}, 1e-5)
    tried = graph.add_intent(Intent(3, PLAN, "refine: it", (1,), 0.05, "x"))
    waiting = graph.add_intent(Intent(4, PLAN, "refine: it", (2,), 0.05, "y"))
    assert gain_of(graph, waiting) == 0.05
    judge(graph, tried.id, {}, factor * 1e-5)
    assert gain_of(graph, waiting) == pytest.approx(kept)


@pytest.mark.parametrize("source", ["", "x"])
def test_only_what_somebody_must_write_keeps_its_promise(source: str) -> None:
    """A rewrite's first version is all there is; a person's or a model's may get better."""
    graph, scale = DesignGraph(), Scale(1e-4)
    graph.add_intent(Intent(1, PLAN, "plan"))
    judge(graph, 1, {}, 1e-5)
    child = graph.add_intent(Intent(2, PLAN, "refine", (1,), 0.05, source))
    promised = promise_of(graph, child, scale)
    judge(graph, 2, {}, 2e-5)
    assert promised is not None
    assert (promise_of(graph, child, scale) is None) == bool(source)
