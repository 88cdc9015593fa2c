"""Steering a search that is stopped or running: pins, cuts, hints and budgets."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from graph_world import World, context_of, open_run

from maxkernel.errors import UsageError
from maxkernel.modes import run_graph
from maxkernel.search.driver import Driver
from maxkernel.search.job import Steer
from maxkernel.search.reading import read_board
from maxkernel.search.settings import SearchSettings
from maxkernel.search.steer import say
from maxkernel.store import RunFile
from maxkernel.types import Budget


def stopped(folder: Path, candidates: int) -> None:
    budget = Budget(candidates=candidates, patience=100)
    with open_run(folder, budget) as run:
        run_graph(context_of(run, World(), budget), SearchSettings())


def speak(folder: Path, *words: Steer) -> None:
    with RunFile.read(folder) as run:
        for word in words:
            say(run, word)


def test_nothing_comes_of_what_is_cut(tmp_path: Path) -> None:
    folder = tmp_path / "r"
    stopped(folder, 12)
    with RunFile.read(folder) as run:
        graph = read_board(run).graph
        resident = next(n for n in graph if n.intent.plan.strategy == "resident")
        before = {n.id for n in graph.descendants(resident.id) if n.trials}
    speak(folder, Steer("cut", resident.id))
    stopped(folder, 60)
    with RunFile.read(folder) as run:
        graph = read_board(run).graph
        assert {n.state for n in graph.descendants(resident.id)} == {"cut"}
        assert {n.id for n in graph.descendants(resident.id) if n.trials} == before


def test_a_pin_draws_every_other_decision(tmp_path: Path) -> None:
    shares: list[float] = []
    for pin in (False, True):
        folder = tmp_path / str(pin)
        stopped(folder, 10)
        with RunFile.read(folder) as run:
            graph = read_board(run).graph
            plain = next(n for n in graph if n.intent.plan.strategy == "split")
        if pin:
            speak(folder, Steer("pin", plain.id))
        stopped(folder, 40)
        with RunFile.read(folder) as run:
            graph = read_board(run).graph
            below = sum(len(n.trials) for n in graph.descendants(plain.id))
            shares.append(below / sum(len(n.trials) for n in graph))
    assert shares[1] > max(0.35, shares[0])


def test_a_hint_reaches_the_team_and_reopens_a_design(tmp_path: Path) -> None:
    folder = tmp_path / "r"
    stopped(folder, 8)
    speak(folder, Steer("hint", 1, "try the transposed layout"))
    with open_run(folder, Budget(20)) as run:
        driver = Driver(context_of(run, World(), Budget(20)), SearchSettings())
        driver.drive()
        assert driver.board.graph[1].hints == ["try the transposed layout"]


def test_words_reach_a_running_search_once(tmp_path: Path) -> None:
    """A hint and a larger budget arrive while the search runs; both survive a resume."""
    folder, budget = tmp_path / "r", Budget(candidates=10, patience=100)
    with open_run(folder, budget) as run:
        context = context_of(run, World(delay=0.02), budget)
        search = threading.Thread(target=lambda: run_graph(context, SearchSettings()))
        search.start()
        speak(folder, Steer("hint", 0, "look at the reductions"))
        with RunFile.read(folder) as reader:
            reader.event("budget", budget={"candidates": 25, "patience": 100})
        search.join()
        assert len(run.evaluations()) == 25
    stopped(folder, 30)
    with RunFile.read(folder) as run:
        board = read_board(run)
        assert board.hints == ["look at the reductions"]
        assert board.graph.evaluations == 25  # the budget given last stays in force


def test_words_about_unknown_designs_are_refused(tmp_path: Path) -> None:
    stopped(tmp_path / "r", 3)
    with RunFile.read(tmp_path / "r") as run, pytest.raises(UsageError, match="no design 99"):
        say(run, Steer("pin", 99))
