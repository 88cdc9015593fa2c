"""kill -9 of a driver at random instants: nothing is lost but what was under way."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from graph_world import World, context_of, open_run, picture

from maxkernel.modes import run_graph
from maxkernel.search.settings import SearchSettings
from maxkernel.types import Budget

BUDGET = Budget(candidates=40, patience=100)
SETTINGS = SearchSettings(width=4)

DRIVER = """
import sys
from pathlib import Path
from graph_world import World, context_of, open_run
from test_graph_kill import BUDGET, SETTINGS
from maxkernel.modes import run_graph
folder, seed = Path(sys.argv[1]), int(sys.argv[2])
world = World(delay=0.01, seed=seed, log=folder.parent / "compiled.txt")
with open_run(folder, BUDGET) as run:
    print("open", flush=True)
    run_graph(context_of(run, world, BUDGET), SETTINGS)
print("done", flush=True)
"""


def drive(folder: Path, seed: int, patience: float) -> bool:
    """One session, killed `patience` seconds after it opened the run; True when it finished."""
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(folder), str(seed)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent,
    ) as driver:
        assert driver.stdout is not None
        assert driver.stdout.readline() == "open\n"
        try:
            driver.wait(patience)
        except subprocess.TimeoutExpired:
            driver.send_signal(signal.SIGKILL)
        return "done" in driver.stdout.read()


def test_killed_searches_end_like_an_undisturbed_one(tmp_path: Path) -> None:
    rng, kills, sessions = random.Random(7), 0, 0
    folder = tmp_path / "r"
    while True:
        sessions += 1
        if drive(folder, sessions, rng.uniform(0.01, 0.25) * (1 + sessions / 5)):
            break
        kills += 1
        assert sessions < 60, "the search makes no progress between kills"
    assert kills >= 2
    with open_run(tmp_path / "calm", BUDGET) as run:
        run_graph(context_of(run, World(), BUDGET), SETTINGS)
        calm = picture(run)
    with open_run(folder, BUDGET) as run:
        assert picture(run) == calm
        assert len(run.evaluations()) == BUDGET.candidates
    compiled = Counter((tmp_path / "compiled.txt").read_text().split())
    again = sum(count - 1 for count in compiled.values())
    assert again <= kills * SETTINGS.width, "only what was under way is done again"


def test_a_finished_search_is_answered_from_its_file(tmp_path: Path) -> None:
    world = World()
    with open_run(tmp_path / "r", BUDGET) as run:
        first = run_graph(context_of(run, world, BUDGET), SETTINGS)
    compiled, started = len(world.compiled), time.monotonic()
    with open_run(tmp_path / "r", BUDGET) as run:
        again = run_graph(context_of(run, world, BUDGET), SETTINGS)
    assert again.design == first.design and len(world.compiled) == compiled
    assert time.monotonic() - started < 5
