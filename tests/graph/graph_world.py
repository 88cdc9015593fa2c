"""A synthetic world for searches: a team and a judge over a landscape with known optimum.

Sources are real candidate files as far as `read_source` looks; "compiling" one is a lookup. The
best design needs two moves and other constants than the first ones, and lies behind a plan whose
first code is refused and whose second is slow.
"""

from __future__ import annotations

import ast
import hashlib
import json
import random
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from maxkernel.engineers.team import Team
from maxkernel.judge import Prepared, Roofline
from maxkernel.parsing import parse
from maxkernel.search import Context, Progress, Silent
from maxkernel.store import RunFile, RunHeader
from maxkernel.targets import Target, get_target
from maxkernel.tasks import task_from_text
from maxkernel.tuner.space import Assignment
from maxkernel.types import (
    Artifact,
    ArtifactFacts,
    Budget,
    Candidate,
    Confirmation,
    Design,
    Diagnosis,
    Evaluation,
    Failure,
    Graph,
    LintResult,
    Move,
    Outcome,
    PallasCall,
    Plan,
    ProgramTime,
    TaskInfo,
    Time,
    Tolerance,
    TunableSpace,
    Verdict,
)
from maxkernel.types.messages import Outline

TASK = task_from_text("synthetic", "maxkernel", "t.py", {"t.py": ""})
INFO = TaskInfo(
    TASK.digest, (), (), (), (), (), {}, {}, Tolerance(0, 0), Graph((), (), (), ()), 0.0, 1e6, b""
)
BASELINE = 1e-3
BOUND = 1e-4
FAMILIES = {"plain": 1.1, "split": 0.9, "resident": 4.0, "twin of plain": 1.1}
"""Seconds x 1000 of each strategy without options at its default constants. `resident` is slow
at first and refused before that; its options are worth most."""
OPTIONS = {"unroll": 0.8, "buffers": 0.9, "transposed": 1.3}
"""Factor on the time of each option; on `resident`, `deep` takes it down by 16."""
BLOCKS = {64: 1.2, 128: 1.0, 256: 0.85, 512: 0.95, 1024: 2.0}
OPTIMUM = 1e-3 * 4.0 / 16 * 0.8 * 0.9 * 0.85


def source_of(plan: Plan, *, broken: bool = False) -> str:
    """A candidate file that says what it is."""
    what = {"strategy": plan.strategy, "options": sorted(plan.options), "broken": broken}
    return (
        'TUNABLES = {"block": (128, 64, 256, 512, 1024), "idle": (1, 2)}\n'
        f"WHAT = {json.dumps(what).replace('true', 'True').replace('false', 'False')}\n\n\n"
        "def kernel(x, *, block=128, idle=1):\n    return x\n"
    )


def seconds_of(candidate: Candidate) -> float | str:
    """The landscape: seconds, or the kind of the failure."""
    tree = parse(candidate.source)
    what = ast.literal_eval(tree.body[1].value)  # type: ignore[attr-defined]
    strategy, options = what["strategy"], what["options"]
    if what["broken"]:
        return "unsupported"
    block = candidate.tunables.get("block", 128)
    if block == 1024 and strategy == "split":
        return "vmem"
    value = FAMILIES[strategy] * BLOCKS.get(int(block), 3.0)
    for option in options:
        value *= OPTIONS.get(option, 1.0)
    if "deep" in options:
        value *= 1 / 16 if strategy == "resident" else 1.5
    return 1e-3 * value


def digest_of(candidate: Candidate) -> str:
    """`twin of plain` lowers to the program of `plain`; `idle` changes no program."""
    text = candidate.source.replace("twin of plain", "plain")
    return hashlib.sha256(f"{text}{candidate.tunables.get('block', 128)}".encode()).hexdigest()


class Planner:
    """All strategies at once, then nothing."""

    def plan(self, info: TaskInfo, target: Target, history: tuple[Outcome, ...]) -> list[Plan]:
        tried = {o.plan.strategy for o in history}
        return [Plan("synthetic", s, f"because {s}") for s in FAMILIES if s not in tried]


class Implementer:
    """The first code of `resident` without options is refused."""

    def implement(self, info: TaskInfo, plan: Plan, target: Target) -> str:
        return source_of(plan, broken=plan.strategy == "resident" and not plan.options)


class Debugger:
    """Mends what the implementer breaks."""

    def repair(
        self, info: TaskInfo, plan: Plan, source: str, failure: Failure, target: Target
    ) -> str | None:
        return source_of(plan) if failure.kind == "unsupported" else None


class Tuner:
    """The declared space."""

    def extend(
        self, info: TaskInfo, plan: Plan, space: TunableSpace, target: Target
    ) -> TunableSpace:
        return space


class Profiler:
    """Nothing to say."""

    def diagnose(self, info: TaskInfo, program: ProgramTime, target: Target) -> Diagnosis:
        return Diagnosis("hbm", "waits for memory")


@dataclass
class Mover:
    """One more option at a time; merges join two designs' options."""

    rewrites: tuple[str, ...] = ()
    """Options whose source comes with the move."""

    def moves(
        self,
        info: TaskInfo,
        design: Design,
        evaluation: Evaluation,
        diagnosis: Diagnosis | None,
        target: Target,
    ) -> list[Move]:
        names = ["unroll", "buffers", "deep", "transposed"]
        fresh = {name: _with(design.plan, [name]) for name in names}
        return [
            Move(f"refine: {n}", p, 0.1, source_of(p) if n in self.rewrites else "")
            for n, p in fresh.items()
            if n not in design.plan.options
        ]

    def merges(
        self, info: TaskInfo, design: Design, others: tuple[Design, ...], target: Target
    ) -> list[tuple[Design, Move]]:
        return [
            (other, Move("merge", _with(design.plan, list(other.plan.options)), 0.15))
            for other in others
            if set(other.plan.options) - set(design.plan.options)
        ]


def _with(plan: Plan, names: list[str]) -> Plan:
    return Plan(plan.family, plan.strategy, plan.reason, plan.options | dict.fromkeys(names, True))


TEAM = Team(Planner(), Implementer(), Debugger(), Tuner(), Profiler(), Mover())
REWRITING = Team(
    Planner(), Implementer(), Debugger(), Tuner(), Profiler(), Mover(("unroll", "deep", "buffers"))
)


@dataclass
class World:
    """A judge over the landscape. Every compile is counted, and may take a random time."""

    delay: float = 0.0
    seed: int = 0
    log: Path | None = None
    """Every compile appends a line here: for tests that kill the process."""
    compiled: list[str] = field(default_factory=list[str])
    outlined: list[str] = field(default_factory=list[str])
    """The source of every assignment that was looked at to rank it."""

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._random = random.Random(self.seed)

    def capture(self, prepared: Prepared, candidate: Candidate) -> tuple[Artifact, bool]:
        """An artifact whose digest is that of the program in the landscape."""
        self._wait(0.2)
        block = int(candidate.tunables.get("block", 128))
        call = PallasCall("k", (4096 // block,), block_bytes=block << 10)
        facts = ArtifactFacts(pallas_calls=(call,))
        return Artifact(digest_of(candidate).encode(), b"", facts), False

    def outline(
        self, prepared: Prepared, source: str, assignments: list[Assignment]
    ) -> list[Outline]:
        """What a trace would tell of the artifacts."""
        found = [self.capture(prepared, Candidate(source, a))[0] for a in assignments]
        self.outlined += [source] * len(found)
        return [Outline(artifact.digest, artifact.facts) for artifact in found]

    def evaluate(
        self,
        prepared: Prepared,
        candidate: Candidate,
        on_stage: object = None,
        captured: Artifact | Failure | None = None,
    ) -> Evaluation:
        """A lookup."""
        artifact = captured or self.capture(prepared, candidate)[0]
        assert isinstance(artifact, Artifact)
        with self._lock:
            self.compiled.append(artifact.digest)
        if self.log is not None:
            with self.log.open("a") as log:
                log.write(artifact.digest + "\n")
        self._wait(1.0)
        found = seconds_of(candidate)
        failure = Failure("compile", found, "refused") if isinstance(found, str) else None  # type: ignore[arg-type]
        return Evaluation(
            candidate,
            prepared.task.digest,
            "v6e",
            "none",
            artifact=artifact.digest,
            facts=artifact.facts,
            program=ProgramTime("v6e", 1.0, 1.0, (), 1.0),
            time=Time(found, "simulated") if isinstance(found, float) else None,
            failure=failure,
        )

    def confirm(self, prepared: Prepared, candidate: Candidate) -> Confirmation:
        """Nothing is wrong here."""
        return Confirmation(failure=None, seeds=1, hazard_runs=0)

    def verdict(self, prepared: Prepared, evaluation: Evaluation) -> Verdict:
        """Plain arithmetic."""
        mine = evaluation.time
        speedup = BASELINE / mine.seconds if mine and evaluation.accepted else None
        faster = speedup is not None and speedup > 1
        return Verdict(evaluation, prepared.baseline, prepared.bound.time, speedup, faster)

    def _wait(self, share: float) -> None:
        with self._lock:
            seconds = self.delay * share * self._random.expovariate(1.0) if self.delay else 0.0
        time.sleep(seconds)


def prepared() -> Prepared:
    """The task as the judge would have prepared it."""
    roof = Roofline(0.0, BOUND, 0.0)
    target = get_target("v6e")
    return Prepared(
        task=TASK,
        info=INFO,
        target=target,
        baseline=Time(BASELINE, "simulated"),
        baseline_program=None,
        bound=roof,
        compiler="none",
        lint=LintResult(shortcuts=()),
    )


def open_run(folder: Path, budget: Budget) -> RunFile:
    """The run in `folder`, made when it is not there."""
    if (folder / "run.sqlite").exists():
        return RunFile.resume(folder)
    header = RunHeader("r", TASK, "v6e", "graph", budget, {}, time.time())
    return RunFile.create(folder, header)


def context_of(
    run: RunFile,
    world: World,
    budget: Budget,
    progress: Progress | None = None,
    team: Team = TEAM,
) -> Context:
    """A context over the synthetic world."""
    run.step("prepared", Prepared, prepared)
    judge: object = world
    return Context(run, judge, prepared(), team, budget, 2, progress or Silent())  # type: ignore[arg-type]


def picture(run: RunFile) -> list[object]:
    """The graph as plain data, without times of day: equal for equal graphs."""
    from maxkernel.search.reading import read_board

    board = read_board(run)
    evaluations = {e.candidate.digest: e.time for _, e in run.evaluations()}
    nodes: list[object] = [
        (
            n.id, n.root, n.intent.parents, n.intent.move, n.intent.plan.strategy,
            sorted(n.intent.plan.options), n.state, n.kind, n.dead, n.quiet, n.jobs,
            [(t.candidate, t.seconds, t.fate) for t in n.trials],
        )
        for n in board.graph
    ]  # fmt: skip
    return [*nodes, sorted(evaluations)]
