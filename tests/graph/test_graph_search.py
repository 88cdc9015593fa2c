"""Graph search over a landscape with a known optimum: what is found, counted, and repeated."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from graph_world import BASELINE, OPTIMUM, World, context_of, open_run, picture

from maxkernel.modes import Finish, run_auto, run_graph
from maxkernel.search.policies import POLICIES
from maxkernel.search.reading import read_board
from maxkernel.search.settings import SearchSettings
from maxkernel.types import Budget

BIG = Budget(candidates=120, patience=100)


def search(
    folder: Path, world: World, budget: Budget = BIG, settings: SearchSettings | None = None
) -> Finish:
    with open_run(folder, budget) as run:
        return run_graph(context_of(run, world, budget), settings or SearchSettings())


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_climbs_out_of_the_valley(policy: str, tmp_path: Path) -> None:
    """The optimum lies behind a refused and then a slow version, two moves and a retune."""
    found = search(tmp_path / "r", World(), settings=SearchSettings(policy))
    assert found.best is not None and found.best.evaluation.time is not None
    assert found.best.evaluation.time.seconds == pytest.approx(OPTIMUM)
    assert found.outcome == "faster" and found.confirmed


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("candidates", [1, 2, 7, 30])
def test_the_budget_holds(policy: str, candidates: int, tmp_path: Path) -> None:
    world, budget = World(), Budget(candidates=candidates, patience=100)
    search(tmp_path / "r", world, budget, SearchSettings(policy))
    assert len(world.compiled) == candidates


def test_no_program_is_compiled_twice(tmp_path: Path) -> None:
    world = World(delay=0.002)
    search(tmp_path / "r", world, settings=SearchSettings(width=8))
    assert max(Counter(world.compiled).values()) == 1
    with open_run(tmp_path / "r", BIG) as run:
        assert len(run.evaluations()) == len(world.compiled)
        fates = [t.fate for n in read_board(run).graph for t in n.trials]
    assert any(fate.startswith("same as") for fate in fates)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_graph_does_not_depend_on_timing(policy: str, tmp_path: Path) -> None:
    """Six runs with different delays per evaluation make one graph, node by node."""
    budget = Budget(candidates=40, patience=100)
    pictures: list[object] = []
    for number, delay in enumerate((0.0, 0.0, 0.001, 0.002, 0.004, 0.004)):
        folder = tmp_path / str(number)
        search(folder, World(delay, seed=number), budget, SearchSettings(policy, width=5))
        with open_run(folder, budget) as run:
            pictures.append(picture(run))
    assert all(p == pictures[0] for p in pictures)


def test_the_seed_matters_where_lots_are_drawn(tmp_path: Path) -> None:
    pictures: list[object] = []
    for seed in (1, 2):
        search(tmp_path / str(seed), World(), Budget(40), SearchSettings("elites", seed))
        with open_run(tmp_path / str(seed), BIG) as run:
            pictures.append(picture(run))
    assert pictures[0] != pictures[1]


def test_a_search_goes_on_with_more_budget(tmp_path: Path) -> None:
    """Spent evaluations stay spent, and nothing is judged again."""
    world = World()
    search(tmp_path / "r", world, Budget(candidates=10, patience=100))
    found = search(tmp_path / "r", world, Budget(candidates=100, patience=100))
    assert found.best is not None and found.best.evaluation.time is not None
    assert found.best.evaluation.time.seconds == pytest.approx(OPTIMUM)
    assert max(Counter(world.compiled).values()) == 1
    assert len(world.compiled) <= 100


def test_an_autonomous_run_is_taken_over(tmp_path: Path) -> None:
    """What auto found are nodes to go on from; its evaluations count once."""
    world, budget = World(), Budget(candidates=12, patience=100)
    with open_run(tmp_path / "r", budget) as run:
        run_auto(context_of(run, world, budget))
        before = len(run.evaluations())
        assert {n.state for n in read_board(run).graph} >= {"accepted"}
    found = search(tmp_path / "r", world, BIG)
    assert found.best is not None and found.best.speedup == pytest.approx(BASELINE / OPTIMUM)
    assert 0 < before <= 12 and len(world.compiled) <= 120
    with open_run(tmp_path / "r", BIG) as run:
        assert read_board(run).graph.evaluations == len(run.evaluations())


def test_quiet_searches_stop(tmp_path: Path) -> None:
    world = World()
    found = search(tmp_path / "r", world, Budget(candidates=500, patience=1))
    assert found.reason in ("no gain", "no plan")
    assert len(world.compiled) < 200
