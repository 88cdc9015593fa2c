"""Graph search against the autonomous mode at equal budget, and against an exhaustive optimum.

    python -m benchmarks.search.compare TASK ... --candidates 16 [--exhaustive 64]

Prints the table of docs/search.md: the best time of each mode and policy over the autonomous
mode's, and over the best of everything that was judged (with --exhaustive: also of that many
assignments of the built-in planner's first plan, by the same clock).
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from maxkernel.api import load_task, open_session
from maxkernel.api.session import Session
from maxkernel.engineers.team import Team
from maxkernel.judge import Prepared
from maxkernel.modes import run_auto, run_graph
from maxkernel.search import Context
from maxkernel.search.policies import POLICIES
from maxkernel.search.settings import SearchSettings
from maxkernel.search.spaces import nearest, widen
from maxkernel.store import RunFile, RunHeader
from maxkernel.types import Budget, Candidate, Failure


def best_of(session: Session, prepared: Prepared, mode: str, candidates: int, root: Path) -> float:
    """Best accepted seconds of one run; infinite where none was accepted."""
    budget = Budget(candidates=candidates, patience=1000, roofline=1.0)
    header = RunHeader(
        mode, prepared.task, prepared.target.name, mode, budget, session.judge.versions, time.time()
    )
    with RunFile.create(root / f"{prepared.task.name}-{mode}", header) as run:
        context = Context(run, session.judge, prepared, Team.builtin(), budget, 2)
        if mode == "auto":
            run_auto(context)
        else:
            run_graph(context, SearchSettings(mode))
        times = [e.time.seconds for _, e in run.evaluations() if e.accepted and e.time]
    return min(times, default=float("inf"))


def exhaustive(session: Session, prepared: Prepared, count: int) -> float:
    """Best of the `count` assignments nearest to the default of the planner's first plan."""
    from maxkernel.judge import read_source

    team, info, target = Team.builtin(), prepared.info, prepared.target
    plan = team.planner.plan(info, target, ())[0]
    source = team.implementer.implement(info, plan, target)
    space = read_source(source)
    best = float("inf")
    for assignment in [] if isinstance(space, Failure) else nearest(widen(space), count):
        found = session.judge.evaluate(prepared, Candidate(source, assignment))
        if found.accepted and found.time is not None:
            best = min(best, found.time.seconds)
    return best


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="+")
    parser.add_argument("--target", default="v6e")
    parser.add_argument("--candidates", type=int, default=16)
    parser.add_argument("--exhaustive", type=int, default=0)
    options = parser.parse_args()
    modes = ["auto", *POLICIES]
    print("| task | XLA | " + " | ".join([*modes, "exhaustive"]) + " | best graph / auto |")
    print("| --- " * (len(modes) + 4) + "|")
    with open_session(options.target) as session, tempfile.TemporaryDirectory() as folder:
        for name in options.tasks:
            prepared = session.judge.prepare(load_task(name))
            found = {
                mode: best_of(session, prepared, mode, options.candidates, Path(folder))
                for mode in modes
            }
            count = options.exhaustive
            full = exhaustive(session, prepared, count) if count else float("inf")
            graph = min(found[mode] for mode in POLICIES)
            cells = [f"{1e6 * found[mode]:.1f}" for mode in modes]
            print(
                f"| {prepared.task.name} | {1e6 * prepared.baseline.seconds:.1f} | "
                f"{' | '.join(cells)} | {1e6 * full:.1f} | {graph / found['auto']:.3f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
