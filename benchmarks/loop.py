"""What the loop itself costs, and whether it keeps the cores busy: a graph search with a scripted
team of models, real SDK, real judge.

Run with `python -m benchmarks.loop`; `make bench` runs it too. The team answers over HTTP after
`--latency` seconds, with a program of its own for every plan. Printed are the share of the run in
which neither a model nor the judge was at work (the loop's own overhead), the share in which both
were, and what part of the cores the run's processes kept busy while the judge worked. The last
figure means something only on a machine that does nothing else; what others used is printed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.cpu import CpuMeter, Interval, crowded, length, union

sys.path.append(str(Path(__file__).parent.parent / "tests" / "llm"))

from fake_llm_server import FakeServer, Request, Say, Step

from maxkernel.api import Models, RunOptions, open_session, start_run
from maxkernel.config import load_settings
from maxkernel.engineers.llm import LlmBudget
from maxkernel.engineers.team import Team
from maxkernel.judge import Judge, Prepared, read_source
from maxkernel.search.settings import SearchSettings
from maxkernel.tasks import load_task
from maxkernel.types import Budget, Failure, Task

TASK = Path(__file__).parent.parent / "examples" / "rmsnorm.py"
ROLES = ("planner", "implementer", "mover")
PLANS = 8
"""Jobs of the search that are under way at once."""
OVERHEAD_LIMIT = 0.05
"""Share of a run."""
BUSY_LIMIT = 0.85
"""Share of the cores while the judge works."""
OTHERS_LIMIT = 0.05
"""Share of the cores that other programs may use before the figure says nothing."""


class Clock:
    """Notes when something is at work. Thread-safe."""

    def __init__(self) -> None:
        self.intervals: list[Interval] = []
        self._lock = threading.Lock()

    @contextmanager
    def at_work(self) -> Generator[None]:
        """Inside, it is."""
        started = time.monotonic()
        try:
            yield
        finally:
            with self._lock:
                self.intervals.append((started, time.monotonic()))


class TimedJudge(Judge):
    """The judge, and when it is at work; `evaluations` without preparing and confirming."""

    def watch(self, work: Clock, evaluations: Clock) -> None:
        """Notes times from now on."""
        self._work, self._evaluations = work, evaluations

    def prepare(self, *args: Any, **kwargs: Any) -> Prepared:
        """As the judge does."""
        with self._work.at_work():
            return super().prepare(*args, **kwargs)

    def evaluate(self, *args: Any, **kwargs: Any) -> Any:
        """As the judge does."""
        with self._work.at_work(), self._evaluations.at_work():
            return super().evaluate(*args, **kwargs)

    def capture(self, *args: Any, **kwargs: Any) -> Any:
        """As the judge does."""
        with self._work.at_work():
            return super().capture(*args, **kwargs)

    def outline(self, *args: Any, **kwargs: Any) -> Any:
        """As the judge does."""
        with self._work.at_work():
            return super().outline(*args, **kwargs)

    def confirm(self, *args: Any, **kwargs: Any) -> Any:
        """As the judge does."""
        with self._work.at_work():
            return super().confirm(*args, **kwargs)


class Writers:
    """The scripted team: as many ideas as are asked for, each with a program of its own."""

    def __init__(self, sources: Sequence[str], latency: float, models: Clock) -> None:
        self._sources = itertools.cycle(sources)
        self._latency = latency
        self._models = models
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def answer(self, request: Request) -> Step:
        """Called once per request, in a thread of its own."""
        with self._models.at_work():
            time.sleep(self._latency)
        with self._lock:
            if "You write Pallas kernels" in request.text:
                return Say(f"```python\n{next(self._sources)}```", 2000, 1500)
            ideas = [
                {
                    "strategy": f"idea {next(self._numbers)}",
                    "reason": "another order of the same work",
                    "change": "as in the code",
                    "speedup": 1.1,
                }
                for _ in range(4)
            ]
        return Say(json.dumps(ideas))


def variants(prepared: Prepared) -> list[str]:
    """The built-in kernel of a task with each of its constants in turn, as sources."""
    floor = Team.builtin()
    plan = floor.planner.plan(prepared.info, prepared.target, ())[0]
    source = floor.implementer.implement(prepared.info, plan, prepared.target)
    space = read_source(source)
    assert not isinstance(space, Failure), space.message
    names, found = list(space), list[str]()
    start = source.index("TUNABLES")
    line = source[start : source.index("\n", start)]
    for values in itertools.product(*(wider(space[name]) for name in names)):
        chosen = {name: (value,) for name, value in zip(names, values, strict=True)}
        found.append(source.replace(line, f"TUNABLES = {chosen!r}", 1))
    return found


def wider(choices: Sequence[Any]) -> list[Any]:
    """Choices with smaller powers of two below the smallest number."""
    numbers = [c for c in choices if isinstance(c, int) and not isinstance(c, bool)]
    if not numbers:
        return list(choices)
    smaller = [min(numbers) >> n for n in range(1, 8) if min(numbers) >> n >= 8]
    return [*choices, *smaller]


@dataclass(frozen=True)
class Figures:
    """What one run came to."""

    wall: float
    overhead: float
    """Share of the run in which neither a model nor the judge was at work."""
    both: float
    """Share in which a model and the judge were."""
    calls: int
    evaluations: int
    busy: float
    """Share of all cores that the run's processes used while evaluations went on."""
    filled: float
    """The same while at least as many evaluations went on as there are workers."""
    idle: float
    """Share of all cores that was idle while evaluations went on."""

    @property
    def others(self) -> float:
        """Share of all cores that other programs used while evaluations went on."""
        return max(0.0, 1 - self.busy - self.idle)

    @property
    def busy_words(self) -> str:
        """Whether the cores were busy enough; not to be said while others use them too."""
        if self.others > OTHERS_LIMIT:
            return "not to be said: other programs were running"
        return verdict(self.busy > BUSY_LIMIT)


def measure(target: str, latency: float, candidates: int) -> Figures:
    """One run from a cold cache; the workers are warm."""
    task, server = load_task(TASK), FakeServer()
    models, work, evaluations = Clock(), Clock(), Clock()
    try:
        with tempfile.TemporaryDirectory() as folder:
            settings = msgspec.structs.replace(
                load_settings(), cache_dir=f"{folder}/cache", runs_dir=f"{folder}/runs"
            )
            with open_session(target, settings=settings) as session:
                judge = TimedJudge(session.executor, session.target, settings, None)
                judge.watch(work, evaluations)
                session = replace(session, judge=judge)
                writers = Writers(variants(judge.prepare(task)), latency, models)
                server.respond(writers.answer)
                for clock in (models, work, evaluations):
                    clock.intervals.clear()
                return drive(session, task, server, candidates, (models, work, evaluations))
    finally:
        server.close()


def drive(
    session: Any,
    task: Task,
    server: FakeServer,
    candidates: int,
    clocks: tuple[Clock, Clock, Clock],
) -> Figures:
    """The run itself, and its figures."""
    models, work, evaluations = clocks
    notation = f"{server.url}/v1#scripted"
    team = Models(dict.fromkeys(ROLES, (notation,)), LlmBudget(max_tokens=10**9))
    options = RunOptions(search=SearchSettings(width=PLANS), use_memory=False, models=team)
    budget = Budget(candidates=candidates, patience=candidates, roofline=1.0)
    cpu, started = CpuMeter(), time.monotonic()
    start_run(session, task, budget, options)
    wall = time.monotonic() - started
    cpu.stop()
    covered = length([*models.intervals, *work.intervals])
    both = length(models.intervals) + length(work.intervals) - covered
    cores = len(os.sched_getaffinity(0))

    def share(phase: Sequence[Interval], of: Callable[[float, float], float]) -> float:
        lasted, tree, idle = cpu.used(phase)
        return of(tree, idle) / (lasted * cores) if lasted else 0.0

    phase = union(evaluations.intervals)
    full = crowded(evaluations.intervals, session.settings.workers)
    return Figures(
        wall=wall,
        overhead=1 - covered / wall,
        both=both / wall,
        calls=len(server.requests),
        evaluations=len(evaluations.intervals),
        busy=share(phase, lambda tree, _: tree),
        filled=share(full, lambda tree, _: tree),
        idle=share(phase, lambda _, idle: idle),
    )


def verdict(holds: bool) -> str:
    """How a figure stands to its limit."""
    return "holds" if holds else "MISSED"


def main() -> None:
    """Prints the figures against their limits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="v6e")
    parser.add_argument("--latency", type=float, default=2.0, help="Seconds of every answer.")
    parser.add_argument("--candidates", type=int, default=32)
    given = parser.parse_args()
    found = measure(given.target, given.latency, given.candidates)
    print(
        f"graph search, {PLANS} plans at once, {found.calls} answers of {given.latency:g} s, "
        f"{found.evaluations} evaluations, {found.wall:.1f} s"
    )
    print(
        f"  the loop's own overhead: {found.overhead:.1%} of the run (limit {OVERHEAD_LIMIT:.0%}: "
        f"{verdict(found.overhead < OVERHEAD_LIMIT)})"
    )
    print(f"  models and judge at work together: {found.both:.1%} of the run")
    print(
        f"  cores busy during evaluation: {found.busy:.1%}, with every worker taken "
        f"{found.filled:.1%}; idle {found.idle:.1%}, used by other programs {found.others:.1%} "
        f"(limit {BUSY_LIMIT:.0%}: {found.busy_words})"
    )


if __name__ == "__main__":
    main()
