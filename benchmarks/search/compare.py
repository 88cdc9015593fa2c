"""Graph search against the autonomous mode at equal budget, and against an exhaustive optimum.

    python -m benchmarks.search.compare [TASK ...] --candidates 12 [--keep FOLDER]

Without tasks: all of benchmarks/search/tasks. `--keep` holds captures, compilations and verdicts,
so that a comparison that was stopped goes on, and one with another policy costs only what is new.

The exhaustive optimum is the best of all declared constants of the planner's first plan: a small
space. The searches may leave it (other plans, other constants, moves), so they can beat it.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from math import exp, log
from pathlib import Path

from benchmarks.search.shared import SharedJudge
from maxkernel.api import load_task, open_session
from maxkernel.engineers.team import Team
from maxkernel.judge import Cache, Judge, Prepared, read_source
from maxkernel.modes import run_auto, run_graph
from maxkernel.search import Context
from maxkernel.search.policies import DEFAULT_POLICY, POLICIES
from maxkernel.search.settings import SearchSettings
from maxkernel.search.spaces import nearest
from maxkernel.store import RunFile, RunHeader
from maxkernel.tuner.rank import fits
from maxkernel.types import Budget, Candidate, Failure

AS_GOOD = 1.005
"""Times within 0.5 % count as equal: what the autonomous mode itself does not call a gain."""


@dataclass(frozen=True)
class Row:
    """Best seconds of everything on one task."""

    task: str
    bound: float
    """Seconds by the roofline."""
    xla: float
    exhaustive: float
    space: int
    """Programs among the exhaustive ones that fit."""
    modes: dict[str, float]


def best_of(judge: Judge, prepared: Prepared, mode: str, candidates: int, root: Path) -> float:
    """Best accepted seconds of one run; infinite where none was accepted."""
    budget = Budget(candidates=candidates, patience=1000, roofline=1.0)
    header = RunHeader(
        mode, prepared.task, prepared.target.name, mode, budget, judge.versions, time.time()
    )
    with RunFile.create(root / f"{prepared.task.name}-{mode}", header) as run:
        context = Context(run, judge, prepared, Team.builtin(), budget, 2)
        if mode == "auto":
            run_auto(context)
        else:
            run_graph(context, SearchSettings(mode))
        if len(run.evaluations()) > candidates:
            raise AssertionError(f"{mode} used {len(run.evaluations())} of {candidates}")
        times = [e.time.seconds for _, e in run.evaluations() if e.accepted and e.time]
    return min(times, default=float("inf"))


def exhaustive(judge: Judge, prepared: Prepared) -> tuple[float, int]:
    """Best of all declared constants of the planner's first plan, and how many programs."""
    team, info, target = Team.builtin(), prepared.info, prepared.target
    plan = team.planner.plan(info, target, ())[0]
    source = team.implementer.implement(info, plan, target)
    space = read_source(source)
    best, programs = float("inf"), set[str]()
    for assignment in [] if isinstance(space, Failure) else nearest(space, 10_000):
        candidate = Candidate(source, assignment)
        captured = judge.capture(prepared, candidate)[0]
        if isinstance(captured, Failure) or captured.digest in programs:
            continue
        if not fits(captured.facts, target):
            continue
        programs.add(captured.digest)
        found = judge.evaluate(prepared, candidate, captured=captured)
        if found.accepted and found.time is not None:
            best = min(best, found.time.seconds)
    return best, len(programs)


def compare(judge: Judge, name: str, candidates: int, root: Path) -> Row:
    """One task."""
    prepared = judge.prepare(load_task(name))
    modes = {mode: best_of(judge, prepared, mode, candidates, root) for mode in ["auto", *POLICIES]}
    full, space = exhaustive(judge, prepared)
    return Row(
        prepared.task.name,
        prepared.bound.time.seconds,
        prepared.baseline.seconds,
        full,
        space,
        modes,
    )


def head() -> str:
    """The table's first two lines."""
    columns = ["task", "bound", "XLA", "exhaustive (programs)", "auto"]
    columns += [f"{p}: us, / exhaustive, / auto" for p in POLICIES]
    return f"| {' | '.join(columns)} |\n{'| --- ' * len(columns)}|"


def line(row: Row) -> str:
    """A row of the table; times in us."""
    cells = [row.task, _us(row.bound), _us(row.xla), f"{_us(row.exhaustive)} ({row.space})"]
    cells.append(_us(row.modes["auto"]))
    cells += [
        f"{_us(t)}, {t / row.exhaustive:.3f}, {t / row.modes['auto']:.3f}"
        for t in (row.modes[p] for p in POLICIES)
    ]
    return f"| {' | '.join(cells)} |"


def summary(rows: list[Row]) -> str:
    """Per policy: on how many tasks it is as good and better, and geometric means of ratios."""

    def text(name: str, of: Callable[[Row], float]) -> str:
        ratios = [of(row) / row.modes["auto"] for row in rows]
        full = [of(row) / row.exhaustive for row in rows]
        good = sum(r <= AS_GOOD for r in ratios)
        better = sum(r < 1 / AS_GOOD for r in ratios)
        return (
            f"| {name} | {good} of {len(rows)} | {better} | {_mean(ratios):.3f} | "
            f"{max(ratios):.3f} | {_mean(full):.3f} | {max(full):.3f} |"
        )

    lines = [
        "| policy | at least as good as auto | better | / auto, mean | / auto, worst | "
        "/ exhaustive, mean | / exhaustive, worst |",
        "| --- " * 7 + "|",
    ]
    for policy in POLICIES:
        name = f"{policy} (default)" if policy == DEFAULT_POLICY else policy
        lines.append(text(name, lambda row, p=policy: row.modes[p]))
    lines.append(text("auto", lambda row: row.modes["auto"]))
    return "\n".join(lines)


def _us(seconds: float) -> str:
    return f"{1e6 * seconds:.1f}"


def _mean(ratios: list[float]) -> float:
    return exp(sum(map(log, ratios)) / len(ratios))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="*")
    parser.add_argument("--target", default="v6e")
    parser.add_argument("--candidates", type=int, default=12)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    folder = Path(__file__).parent / "tasks"
    names: list[str] = options.tasks or [str(p) for p in sorted(folder.glob("*.py"))]
    rows: list[Row] = []
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        session = stack.enter_context(open_session(options.target, use_cache=False))
        cache = Cache(options.keep or root)
        stack.callback(cache.close)
        judge = SharedJudge(session, cache)
        print(head(), flush=True)
        for name in names:
            rows.append(compare(judge, name, options.candidates, root))
            print(line(rows[-1]), flush=True)
    print(f"\n{judge.asked} evaluations asked for, {judge.judged} programs judged\n")
    print(summary(rows))


if __name__ == "__main__":
    main()
