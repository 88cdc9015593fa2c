"""Memory across tasks: what is kept, how it is weighed, and that it changes what is tried first."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from graph_world import INFO, World, context_of, open_run

from maxkernel.modes import run_graph
from maxkernel.search.memory import Lesson, Memory, Observation, expected, pattern_of
from maxkernel.search.settings import LESSONS, SearchSettings
from maxkernel.types import Budget, Graph, Node, Value

BUDGET = Budget(candidates=30, patience=100)
OTHER = Graph((Value((4,), "float32"),), (0,), (0,), (Node("exp", (0,), (0,)),))


def test_what_was_seen_on_like_tasks_weighs_most(tmp_path: Path) -> None:
    memory = Memory(tmp_path)
    memory.learn("a", INFO, "v6e", [Observation("refine: unroll", 0.2)])
    other = type(INFO)(**{f: getattr(INFO, f) for f in INFO.__struct_fields__} | {"graph": OTHER})
    assert pattern_of(other) != pattern_of(INFO)
    memory.learn("b", other, "v6e", [Observation("refine: unroll", -0.2)])
    memory.learn("c", INFO, "v4", [Observation("refine: unroll", -0.2)])
    (lesson,) = memory.lessons(INFO, "v6e")
    weight = 1 + 0.25 + 0.1
    assert lesson.weight == pytest.approx(weight)
    assert lesson.gain == pytest.approx((0.2 - 0.25 * 0.2 - 0.1 * 0.2) / weight)
    memory.close()


def test_a_run_is_remembered_once(tmp_path: Path) -> None:
    memory = Memory(tmp_path)
    for gain in (0.1, 0.3):
        memory.learn("same run", INFO, "v6e", [Observation("m", gain)])
    assert memory.lessons(INFO, "v6e") == [Lesson("m", 0.3, 1.0)]
    memory.close()


def test_expectations_move_towards_what_was_seen() -> None:
    lessons = {"m": Lesson("m", 0.5, 2.0)}
    assert expected(lessons, "m", 0.1) == pytest.approx(0.3)
    assert expected(lessons, "unknown", 0.1) == 0.1


def test_a_broken_file_is_set_aside(tmp_path: Path) -> None:
    (tmp_path / "memory.sqlite").write_bytes(b"not a database" * 100)
    memory = Memory(tmp_path)
    assert memory.lessons(INFO, "v6e") == []
    memory.close()
    assert (tmp_path / "memory.broken").exists()


def test_a_second_search_tries_first_what_worked(tmp_path: Path) -> None:
    """The first search has to find out; the second one reaches the best plan at once."""
    memory = Memory(tmp_path / "memory")
    firsts: list[int] = []
    for number in range(2):
        with open_run(tmp_path / str(number), BUDGET) as run:
            run_graph(context_of(run, World(), BUDGET), SearchSettings(), memory)
            times = [e.time.seconds if e.time else math.inf for _, e in run.evaluations()]
            firsts.append(next(i for i, t in enumerate(times) if t < 3e-4))
    assert firsts[1] < firsts[0]
    lessons = {lesson.move: lesson.gain for lesson in memory.lessons(INFO, "v6e")}
    assert lessons["refine: unroll"] == pytest.approx(math.log(1 / 0.8), abs=0.15)
    assert lessons["plan: synthetic: resident"] > lessons["plan: synthetic: plain"]
    memory.close()


def test_a_resumed_search_keeps_what_it_knew(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "memory")
    with open_run(tmp_path / "r", Budget(6)) as run:
        run_graph(context_of(run, World(), Budget(6)), SearchSettings(), memory)
        known = run.recall(LESSONS, list[Lesson])
    memory.learn("other", INFO, "v6e", [Observation("refine: buffers", 3.0)])
    with open_run(tmp_path / "r", BUDGET) as run:
        run_graph(context_of(run, World(), BUDGET), SearchSettings(), memory)
        assert run.recall(LESSONS, list[Lesson]) == known == []
    memory.close()
