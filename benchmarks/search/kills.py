"""kill -9 of drivers and workers of a real graph search: nothing finished is lost or done twice.

    python -m benchmarks.search.kills [--task FILE] [--kills 20] [--candidates 12]

One search goes on through all kills, which come at random times and hit the driver or one of its
workers by turns; a worker's death is no end of its driver. Afterwards the graph must be that of a
search that nobody disturbed. Both use a cache of their own, so that everything is really compiled.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from maxkernel.executor.tree import family
from maxkernel.search.reading import read_board
from maxkernel.store import RunFile, find_run

TASK = Path(__file__).parent / "tasks" / "rows_mish_softmax.py"


GIVEN_UP = 10
"""Drivers that may end by themselves with a fault; every one is printed."""


def start(folder: Path, task: Path, candidates: int) -> subprocess.Popen[bytes]:
    """A new search, or the one that is there."""
    words = ["resume", "last"] if any(folder.glob("maxkernel-runs/*/run.sqlite")) else None
    words = words or ["optimize", str(task), "--mode", "graph", "--no-memory"]
    command = str(Path(sys.executable).with_name("maxkernel"))
    return subprocess.Popen(
        [command, *words, "--max-evaluations", str(candidates), "--json"],
        cwd=folder,
        env=os.environ | {"MAXKERNEL_CACHE_DIR": str(folder / "cache")},
        stdout=(folder / "output").open("ab"),
        stderr=subprocess.STDOUT,
    )


def ended(process: subprocess.Popen[bytes], folder: Path) -> bool:
    """True when a driver has finished its search, which has status 0 or 1; faults are printed."""
    status = process.poll()
    if status is not None and status > 1:
        words = (folder / "output").read_text(errors="replace").splitlines()[-1:]
        print(f"a driver gave up with status {status}: {words}", flush=True)
    return status in (0, 1)


def finished(folder: Path) -> tuple[set[str], list[str]]:
    """Keys of stored steps, and every evaluation event's candidate, of the only run."""
    if not any(folder.glob("maxkernel-runs/*/run.sqlite")):
        return set(), []
    with RunFile.read(find_run(folder / "maxkernel-runs", "last")) as run:
        events = list(run.events())
    steps = {str(e.body["key"]) for e in events if e.kind == "step"}
    return steps, [str(e.body["candidate"]) for e in events if e.kind == "evaluation"]


def picture(folder: Path) -> list[object]:
    """The graph without times of day."""
    with RunFile.read(find_run(folder / "maxkernel-runs", "last")) as run:
        return [
            (n.id, n.intent.parents, n.intent.move, n.state, [(t.candidate, t.seconds, t.fate)
             for t in n.trials])
            for n in read_board(run).graph
        ]  # fmt: skip


def difference(calm: list[object], shaken: list[object]) -> str:
    """The first node in which two graphs differ; empty when they are the same."""
    for one, other in itertools.zip_longest(calm, shaken):
        if one != other:
            return f"undisturbed: {one}\ndisturbed:   {other}"
    return ""


def disturb(folder: Path, task: Path, candidates: int, kills: int, rng: random.Random) -> str:
    """Kills until there were enough, then lets the search end. What happened, as a table row."""
    drivers = workers = lost = given_up = 0
    before: tuple[set[str], list[str]] = (set(), [])
    process = start(folder, task, candidates)
    while drivers + workers < kills:
        time.sleep(rng.uniform(0.3, 5.0))
        if ended(process, folder) or given_up == GIVEN_UP:
            break
        if process.poll() is not None:
            given_up += 1
            process = start(folder, task, candidates)
            continue
        members = family(process.pid)[1:]
        if rng.random() < 0.5 and members:
            victim = rng.choice(members)
            try:
                os.kill(victim, signal.SIGKILL)
                workers += 1
            except ProcessLookupError:
                continue
        else:
            process.kill()
            process.wait()
            drivers += 1
            after = finished(folder)
            lost += len(before[0] - after[0]) + len(set(before[1]) - set(after[1]))
            before = after
            process = start(folder, task, candidates)
    process.wait()
    steps, judged = finished(folder)
    lost += len(before[0] - steps) + len(set(before[1]) - set(judged))
    twice = sum(count - 1 for count in Counter(judged).values())
    return f"| {drivers} | {workers} | {len(judged)} of {candidates} | {lost} | {twice} |"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", type=Path, default=TASK)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--candidates", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    task = options.task.resolve()
    with tempfile.TemporaryDirectory() as root:
        calm, shaken = Path(root, "calm"), Path(root, "shaken")
        calm.mkdir()
        shaken.mkdir()
        print("| drivers killed | workers killed | evaluations | lost | twice |")
        print("| --- | --- | --- | --- | --- |")
        rng = random.Random(options.seed)
        print(disturb(shaken, task, options.candidates, options.kills, rng), flush=True)
        start(calm, task, options.candidates).wait()
        apart = difference(picture(calm), picture(shaken))
        print(f"\nthe graph of an undisturbed search: {'another one' if apart else 'the same'}")
        if apart:
            print(f"the first difference:\n{apart}")
    sys.exit(1 if apart else 0)


if __name__ == "__main__":
    main()
