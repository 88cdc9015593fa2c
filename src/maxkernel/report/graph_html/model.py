"""The design graph of a run as data: what the terminal's tree and the page are made from."""

from __future__ import annotations

import difflib

import msgspec

from maxkernel.judge import Prepared
from maxkernel.report.model import quote_time
from maxkernel.search.board import Board
from maxkernel.search.graph import Node, Trial
from maxkernel.search.reading import read_board
from maxkernel.store import RunFile
from maxkernel.types import Evaluation, Failure, Tunable

MAX_DIFF_LINES = 400


class TrialView(msgspec.Struct, frozen=True):
    """One assignment of a design's constants."""

    tunables: dict[str, Tunable]
    seconds: float | None
    fate: str


class OpView(msgspec.Struct, frozen=True):
    """One line of a profile."""

    name: str
    kind: str
    seconds: float
    share: float
    stalled: float


class NodeView(msgspec.Struct, frozen=True):
    """One design or intent."""

    id: int
    parents: tuple[int, ...]
    move: str
    family: str
    strategy: str
    options: dict[str, Tunable]
    reason: str
    state: str
    kind: str
    """Of the failure of a refused design; what it is the same as."""
    seconds: float | None
    speedup: float | None
    time: str
    limit: str
    tunables: dict[str, Tunable]
    depth: int
    best_line: bool
    """The best design came of it."""
    pinned: bool
    hints: tuple[str, ...]
    trials: tuple[TrialView, ...]
    failure: Failure | None
    profile: tuple[OpView, ...]
    diff: str
    """Unified diff to the first parent's source; the whole source where there is no parent."""


class Point(msgspec.Struct, frozen=True):
    """One evaluation on the way, oldest first."""

    design: int
    seconds: float | None
    best: float | None
    """Best accepted seconds so far."""


class GraphView(msgspec.Struct, frozen=True):
    """Everything about a run's graph."""

    run: str
    task: str
    target: str
    state: str
    baseline: float | None
    bound: float | None
    best: int | None
    nodes: tuple[NodeView, ...]
    curve: tuple[Point, ...]
    hints: tuple[str, ...] = ()


def view_graph(run: RunFile) -> GraphView:
    """The graph of a run as its file stands now."""
    board, prepared = read_board(run), run.recall("prepared", Prepared)
    found = run.evaluations()
    xla = prepared.xla if prepared is not None else None
    best = board.graph.best
    line = {n.id for n in board.graph.lineage(best.id)} if best is not None else set[int]()
    finished = any(event.kind == "finished" for event in run.events())
    by_candidate = {e.candidate.digest: e for _, e in found}
    nodes = [_node(run, board, node, by_candidate, line) for node in board.graph]
    return GraphView(
        run=run.header.run,
        task=run.header.task.name,
        target=run.header.target,
        state="finished" if finished else "running" if run.driven() else "stopped",
        baseline=xla.seconds if xla is not None else None,
        bound=prepared.bound.time.seconds if prepared is not None else None,
        best=best.id if best is not None else None,
        nodes=tuple(nodes),
        curve=_curve(found),
        hints=tuple(board.hints),
    )


def _node(
    run: RunFile, board: Board, node: Node, found: dict[str, Evaluation], line: set[int]
) -> NodeView:
    plan = node.intent.plan
    best = found.get(node.best.candidate) if node.best is not None else None
    kind = node.dead or node.kind
    return NodeView(
        id=node.id,
        parents=node.intent.parents,
        move=node.intent.move,
        family=plan.family,
        strategy=plan.strategy,
        options=plan.options,
        reason=plan.reason,
        state=node.state,
        kind=kind,
        seconds=node.seconds,
        speedup=board.scale.speedup(node.seconds),
        time=quote_time(best.time if best is not None else None),
        limit=node.limit,
        tunables=node.best.tunables if node.best is not None else {},
        depth=node.depth,
        best_line=node.id in line,
        pinned=node.pinned,
        hints=tuple(node.hints),
        trials=tuple(_trial(t) for t in node.trials),
        failure=node.failure if node.state == "refused" else None,
        profile=_profile(best),
        diff=_diff(run, node),
    )


def _trial(trial: Trial) -> TrialView:
    return TrialView(trial.tunables, trial.seconds, trial.fate)


def _profile(evaluation: Evaluation | None) -> tuple[OpView, ...]:
    program = evaluation.program if evaluation is not None else None
    if program is None or not program.seconds:
        return ()
    ops = sorted(program.ops, key=lambda op: -op.seconds)[:8]
    return tuple(
        OpView(
            op.name,
            op.kind,
            op.seconds,
            op.seconds / program.seconds,
            op.stall_cycles / op.cycles if op.cycles else 0.0,
        )
        for op in ops
    )


def _diff(run: RunFile, node: Node) -> str:
    design = run.design(node.id)
    if design is None:
        return ""
    parent = run.design(node.intent.parents[0]) if node.intent.parents else None
    if parent is None:
        return design.source
    lines = difflib.unified_diff(
        parent.source.splitlines(),
        design.source.splitlines(),
        f"design {parent.id}",
        f"design {node.id}",
        lineterm="",
    )
    return "\n".join(list(lines)[:MAX_DIFF_LINES])


def _curve(found: list[tuple[int, Evaluation]]) -> tuple[Point, ...]:
    points: list[Point] = []
    best: float | None = None
    for design, evaluation in found:
        seconds = evaluation.time.seconds if evaluation.accepted and evaluation.time else None
        if seconds is not None and (best is None or seconds < best):
            best = seconds
        points.append(Point(design, seconds, best))
    return tuple(points)
