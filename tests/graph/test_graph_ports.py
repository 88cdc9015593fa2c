"""Ports: what an earlier run for another target brings, and that it is judged anew here."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import pytest
from graph_world import TASK, World, context_of, open_run, picture, source_of

from maxkernel.engineers.rewrites import scale_vmem_limits
from maxkernel.errors import UsageError
from maxkernel.judge import Prepared
from maxkernel.modes import run_auto, run_graph
from maxkernel.report.graph_html import view_graph
from maxkernel.search.porting import FROM, PORTED, Ported, bring, portable
from maxkernel.search.reading import read_board
from maxkernel.search.settings import SearchSettings
from maxkernel.store import RunFile, RunHeader
from maxkernel.targets import get_target
from maxkernel.tasks import task_from_text
from maxkernel.types import (
    Artifact,
    Budget,
    Candidate,
    Design,
    Evaluation,
    Failure,
    Plan,
    Time,
)

BUDGET = Budget(candidates=30, patience=100)
V6E = get_target("v6e")


def earlier(folder: Path, target: str = "v5e", *, accepted: bool = True) -> Path:
    """A run for another target with four designs: two of one strategy, the fastest withdrawn."""
    header = RunHeader("earlier", TASK, target, "graph", BUDGET, {}, time.time())
    times = {"plain": 4e-6, "split": 2e-6, "resident": 3e-6, "twin of plain": 1e-6}
    with RunFile.create(folder, header) as run:
        for id, (strategy, seconds) in enumerate(times.items(), 1):
            plan = Plan("synthetic", strategy, "because", {"deep": True}, expected_seconds=1e-9)
            run.add_design(Design(id, plan, source_of(plan), "plan"))
            for block, factor in ((256, 1.0), (512, 1.5)):
                failure = None if accepted else Failure("check", "mismatch", "wrong")
                candidate = Candidate(source_of(plan), {"block": block})
                found = Time(seconds * factor, "measured")
                run.add_evaluation(
                    id,
                    Evaluation(candidate, TASK.digest, target, "none", time=found, failure=failure),
                )
        run.event("unconfirmed", design=4, failure="wrong on fresh inputs")
    return folder


def begin(folder: Path, source: Path) -> RunFile:
    """A run for v6e that starts from `source`."""
    options = {FROM: str(source)}
    header = RunHeader("new", TASK, "v6e", "graph", BUDGET, {}, time.time(), options)
    run = RunFile.create(folder, header)
    bring(run, V6E)
    return run


def test_the_best_designs_enter_first_and_are_judged_anew(tmp_path: Path) -> None:
    source, world = earlier(tmp_path / "old"), World()
    with begin(tmp_path / "new", source) as run:
        run_graph(context_of(run, world, BUDGET), SearchSettings())
        ported, board = run.recall(PORTED, Ported), read_board(run)
        assert ported == Ported("earlier", "v5e", (1, 2, 3))
        nodes = [board.graph[id] for id in ported.intents]
        assert [n.intent.plan.strategy for n in nodes] == ["split", "resident", "plain"]
        for node in nodes:
            assert node.intent.move == "port: from v5e" and not node.intent.parents
            assert node.intent.plan.expected_seconds is None
            assert node.trials[0].tunables == {"block": 256}
        assert all(e.time is None or e.time.seconds > 1e-5 for _, e in run.evaluations())
        assert len(run.evaluations()) == len(world.compiled) == BUDGET.candidates
        assert any(n.intent.move == "plan" for n in board.graph), "its own plans come too"
        view = view_graph(run)
    assert [n.move for n in view.nodes[:3]] == ["port: from v5e"] * 3


class Dying(World):
    """Its driver dies at one of its evaluations."""

    def evaluate(self, *args: object, **kwargs: object) -> Evaluation:  # type: ignore[override]
        if len(self.compiled) >= 7:
            raise KeyboardInterrupt
        return super().evaluate(*args, **kwargs)  # type: ignore[arg-type]


def test_a_search_that_dies_keeps_its_ports_and_ends_as_another_would(tmp_path: Path) -> None:
    source = earlier(tmp_path / "old")
    pictures: list[object] = []
    for name, worlds in (("a", [World(0.001)]), ("b", [Dying(), World()])):
        begin(tmp_path / name, source).close()
        for world in worlds:
            with open_run(tmp_path / name, BUDGET) as run:
                context = context_of(run, world, BUDGET)
                if isinstance(world, Dying):
                    with pytest.raises(KeyboardInterrupt):
                        run_graph(context, SearchSettings())
                    (source / "run.sqlite").unlink()  # what was ported is in the run's own file
                else:
                    run_graph(context, SearchSettings())
                    pictures.append(picture(run))
    assert pictures[0] == pictures[1]


def test_the_closed_loop_tries_ports_in_its_first_round(tmp_path: Path) -> None:
    source = earlier(tmp_path / "old")
    with begin(tmp_path / "new", source) as run:
        run_auto(context_of(run, World(), BUDGET))
        designs = {d.id: d.move for d in run.designs()}
        assert [designs[id] for id in (1, 2, 3)] == ["port: from v5e"] * 3
        assert sum(move.startswith("port") for move in designs.values()) == 3
        assert any(move == "plan" for move in designs.values())
        judged = {design for design, _ in run.evaluations()}
    assert {1, 2, 3} <= judged


class Small(World):
    """Only blocks of 64 fit in VMEM."""

    def capture(self, prepared: Prepared, candidate: Candidate) -> tuple[Artifact, bool]:
        artifact, known = super().capture(prepared, candidate)
        block = int(candidate.tunables.get("block", 128))
        call = msgspec.structs.replace(artifact.facts.pallas_calls[0], block_bytes=block << 20)
        facts = msgspec.structs.replace(artifact.facts, pallas_calls=(call,))
        return msgspec.structs.replace(artifact, facts=facts), known


def test_constants_that_do_not_fit_here_are_ranked_anew(tmp_path: Path) -> None:
    with begin(tmp_path / "new", earlier(tmp_path / "old")) as run:
        run_graph(context_of(run, Small(), Budget(3)), SearchSettings())
        firsts = [e.candidate.tunables["block"] for d, e in run.evaluations() if d <= 3]
    assert set(firsts) == {64}


def test_what_cannot_be_ported_is_said(tmp_path: Path) -> None:
    other = task_from_text("another", "maxkernel", "t.py", {"t.py": "x = 1"})
    source = earlier(tmp_path / "old")
    with pytest.raises(UsageError, match="is of another task: synthetic, not another"):
        portable(source, other, V6E)
    with pytest.raises(UsageError, match="is for v5e already"):
        portable(source, TASK, get_target("v5e"))
    with pytest.raises(UsageError, match="no accepted design to port to v6e"):
        portable(earlier(tmp_path / "refused", accepted=False), TASK, V6E)
    with pytest.raises(UsageError, match="no run in"):
        portable(tmp_path / "nowhere", TASK, V6E)


def test_limits_of_vmem_keep_their_share() -> None:
    source = """
LIMIT = 120 * 2**20


def kernel(x):
    a = pltpu.CompilerParams(vmem_limit_bytes=LIMIT)
    b = pltpu.CompilerParams(vmem_limit_bytes=64 << 20)
    return pltpu.CompilerParams(vmem_limit_bytes=x.size * 2)
"""
    changed = scale_vmem_limits(source, 128 << 20, 64 << 20)
    assert changed == source.replace("120 * 2**20", "60 * 2**20").replace("64 << 20", "32 * 2**20")
    assert scale_vmem_limits(source, 1, 1 << 10 << 40) is not None
    assert scale_vmem_limits("def kernel(x):\n    return x\n", 1, 2) is None
