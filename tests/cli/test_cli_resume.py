"""kill -9 at random points, twenty times: the run goes on, and nothing finished is lost."""

import json
import random
import signal
import sqlite3
import subprocess
import time
from pathlib import Path
from typing import Any

KILLS = 20
EARLY = 4  # of them, before the run's file exists


def finished_work(folder: Path) -> tuple[set[str], set[str]]:
    """Keys of stored steps and digests of stored evaluations of the only run."""
    files = list(folder.glob("maxkernel-runs/*/run.sqlite"))
    if not files:
        return set(), set()
    db = sqlite3.connect(files[0])
    try:
        steps = {row[0] for row in db.execute("SELECT key FROM steps")}
        evaluations = {row[0] for row in db.execute("SELECT candidate FROM evaluations")}
    except sqlite3.OperationalError:
        return set(), set()
    finally:
        db.close()
    return steps, evaluations


def test_twenty_kills(cli: Any) -> None:
    rng = random.Random(20)
    run = cli.folder / "maxkernel-runs"
    before: tuple[set[str], set[str]] = (set(), set())
    kills = 0
    while kills < KILLS:
        started = any(run.glob("*/run.sqlite"))
        arguments = ("resume", "last") if started else ("optimize", "norm.py")
        process = cli.start(*arguments, "--budget-candidates", "6", "--json")
        if kills >= EARLY and not started:  # a loaded machine may take long to get here
            _wait_for_a_run(run)
        try:
            process.communicate(timeout=rng.uniform(0.2, 5.0))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            kills += 1
        after = finished_work(cli.folder)
        assert before[0] <= after[0] and before[1] <= after[1], "a finished stage was lost"
        before = after
        assert len(list(run.glob("*/run.sqlite"))) <= 1
    status, report = cli.json("resume", "last")
    assert status == 0, report
    digests = [line["candidate"] for line in report["candidates"]]
    assert len(digests) == len(set(digests)) <= 6
    assert before[1] <= set(digests)
    events = [json.loads(e) for e in cli.run("show", "last", "--events")[1].splitlines()]
    assert sum(e["kind"] == "evaluation" for e in events) == len(digests)
    _no_worker_is_left(cli.folder)


def _wait_for_a_run(runs: Path) -> None:
    end = time.monotonic() + 120
    while not any(runs.glob("*/run.sqlite")):
        assert time.monotonic() < end, "no run was started within two minutes"
        time.sleep(0.02)


def _no_worker_is_left(folder: Path) -> None:
    listing = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    assert not [line for line in listing.stdout.splitlines() if str(folder) in line]
