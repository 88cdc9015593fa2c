"""What the pages show of a run, read from its file whatever mode drives it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from maxkernel.engineers.llm.budget import Spent
from maxkernel.engineers.llm.calls import Call, calls_of, spent_by
from maxkernel.judge import Prepared
from maxkernel.modes.pair import PairSession, budget_of, speedup
from maxkernel.search.reading import read_board
from maxkernel.search.steer import EVENT
from maxkernel.store import Event, RunFile, ending
from maxkernel.types import Budget, Time

MICRO = 1e6


@dataclass(frozen=True)
class Head:
    """The figures at the top of a run's pages."""

    run: str
    task: str
    target: str
    mode: str
    created: float
    state: str
    """`running`, `stopped` or `finished`."""
    outcome: str
    driven: bool
    baseline: Time | None
    bound: Time | None
    limit: str
    best: Time | None
    best_design: int | None
    speedup: float | None
    fraction: float | None
    """Roofline bound / best time."""
    evaluations: int
    accepted: int
    budget: Budget
    spent: Spent
    """What models have used."""
    seconds: float
    """Time that the run was driven for."""


def head(client: PairSession) -> Head:
    """The figures of a run as it stands."""
    run, prepared = client.run, client.prepared
    header, found = run.header, run.evaluations()
    accepted = [(d, e) for d, e in found if e.accepted and e.time]
    best = min(accepted, key=lambda pair: pair[1].time.seconds if pair[1].time else 0, default=None)
    time = best[1].time if best else None
    finished = ending(run)
    driven = run.driven()
    spent = spent_by(calls_of(run))
    return Head(
        run=client.name,
        task=header.task.name,
        target=header.target,
        mode=header.mode,
        created=header.created,
        state=_state(client, finished is not None, driven),
        outcome=str(finished.body.get("outcome", "")) if finished else "",
        driven=driven,
        baseline=prepared.xla if prepared else None,
        bound=prepared.bound.time if prepared else None,
        limit=prepared.bound.limit if prepared else "",
        best=time,
        best_design=best[0] if best else None,
        speedup=speedup(prepared, best[1]) if best else None,
        fraction=prepared.bound.time.seconds / time.seconds if prepared and time else None,
        evaluations=len(found),
        accepted=len(accepted),
        budget=budget_of(run),
        spent=spent,
        seconds=client.state.worked if header.mode == "pair" else run.spent_seconds(),
    )


def _state(client: PairSession, finished: bool, driven: bool) -> str:
    if client.run.header.mode == "pair":
        return "running" if client.state.running else "finished" if finished else "waiting for you"
    return "running" if driven else "finished" if finished else "stopped"


def curve(run: RunFile, prepared: Prepared | None) -> dict[str, object]:
    """Times of accepted kernels in the order in which they were judged, in microseconds."""
    points: list[dict[str, object]] = []
    best = float("inf")
    for number, (design, evaluation) in enumerate(run.evaluations(), 1):
        time = evaluation.time
        accepted = evaluation.accepted and time is not None
        seconds = time.seconds if accepted and time else None
        best = min(best, seconds if seconds is not None else best)
        points.append(
            {
                "n": number,
                "design": design,
                "us": seconds * MICRO if seconds is not None else None,
                "best": best * MICRO if best < float("inf") else None,
                "fate": evaluation.failure.kind if evaluation.failure else "accepted",
            }
        )
    return {
        "points": points,
        "baseline": prepared.xla.seconds * MICRO if prepared and prepared.xla else None,
        "bound": prepared.bound.time.seconds * MICRO if prepared else None,
    }


def graph(client: PairSession) -> dict[str, object]:
    """The design graph for drawing: nodes with their parents, states and times."""
    board = read_board(client.run)
    bench, found = client.state.bench, board.graph
    lineage = {n.id for n in found.lineage(found.best.id)} if found.best else set[int]()
    scale = board.scale
    pinned, cut = _said(client.run, "pin"), _said(client.run, "cut")
    gone = {below.id for id in cut if id in found.nodes for below in found.descendants(id)}
    nodes = [
        {
            "id": node.id,
            "parents": [p for p in node.intent.parents if p in found.nodes],
            "move": node.intent.move,
            "strategy": node.intent.plan.strategy,
            "state": "cut" if node.id in gone else node.state,
            "kind": node.kind,
            "us": node.seconds * MICRO if node.seconds is not None else None,
            "speedup": scale.speedup(node.seconds),
            "trials": len(node.trials),
            "best": found.best is node,
            "lineage": node.id in lineage,
            "pinned": node.pinned or node.id in pinned,
            "written": node.written,
            "focus": bench.focus is not None and bench.focus.design == node.id,
            "accepted": bench.accepted is not None and bench.accepted.design == node.id,
        }
        for node in found
    ]
    return {"nodes": nodes, "hints": board.hints}


def _said(run: RunFile, action: str) -> set[int]:
    """Designs that a person pinned or cut, whether or not a search has heard it yet."""
    words = [event.body for event in run.events() if event.kind == EVENT]
    return {int(body.get("node") or 0) for body in words if body.get("action") == action}


@dataclass(frozen=True)
class Item:
    """One line of the feed."""

    id: int
    at: float
    kind: str
    text: str
    design: int | None = None


def feed(client: PairSession, limit: int) -> list[Item]:
    """The last lines of a run's history, newest first. Notes show as the hints they are."""
    lines = {line.id: line for line in client.state.lines if line.kind != "note"}
    items: list[Item] = []
    for event in client.run.events():
        line = lines.get(event.id)
        if line is not None:
            items.append(Item(line.id, line.at, line.kind, line.text, line.design))
            continue
        item = _item(event)
        if item is not None:
            items.append(item)
    return items[::-1][:limit]


def _item(event: Event) -> Item | None:
    body = event.body
    design = body.get("design") if isinstance(body.get("design"), int) else None
    match event.kind:
        case "opened":
            text, kind = ("taken up again" if body.get("resumed") else "opened"), "decision"
        case "design":
            design = int(body["id"])
            text, kind = f"design {design} written ({body.get('move', '')})", "stage"
        case "evaluation":
            text, kind = _evaluation_words(body)
        case "steer":
            design = int(body.get("node") or 0) or None
            where = f"design {design}" if design else "the search"
            text = f"{body['action']} for {where}: {body.get('text', '')}".rstrip(": ")
            kind = "said"
        case "budget":
            budget = body["budget"]
            text, kind = f"budget: {budget.get('candidates')} evaluations", "decision"
        case "call":
            text, kind = _call_words(body)
        case "stop":
            text, kind = "stop", "decision"
        case "finished":
            text, kind = f"finished: {body.get('outcome')} ({body.get('reason')})", "decision"
        case "withdrawn":
            text, kind = "the bundle was withdrawn", "decision"
        case "unconfirmed":
            text, kind = f"design {design} failed on fresh inputs: {body['failure']}", "problem"
        case _:
            return None
    return Item(event.id, event.at, kind, text, design)


def _evaluation_words(body: dict[str, Any]) -> tuple[str, str]:
    design, failure, seconds = body.get("design"), body.get("failure"), body.get("seconds")
    tunables: dict[str, Any] = body.get("tunables") or {}
    constants = ", ".join(f"{name}={value}" for name, value in tunables.items())
    what = f"design {design} ({constants})" if constants else f"design {design}"
    if failure:
        stage, kind, message = (str(word) for word in failure)
        return f"{what} refused, {stage}/{kind}: {message}", "problem"
    micro = f"{seconds * MICRO:.4g} us" if seconds else "no time"
    return f"{what}: {micro} {body.get('provenance') or ''}", "result"


def _call_words(body: dict[str, Any]) -> tuple[str, str]:
    call = msgspec.convert(body, Call)
    money = f", {call.cost:.4f} USD" if call.cost is not None else ""
    money = ", replayed" if call.replayed else money
    tokens = call.input_tokens + call.output_tokens
    error = f" failed: {call.error}" if call.error else ""
    text = f"{call.role} asked {call.model}{error} ({tokens} tokens{money})"
    return text, "problem" if error else "stage"
