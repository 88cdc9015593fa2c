"""What the page of one design shows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from maxkernel.engineers.llm.calls import calls_of
from maxkernel.judge import Prepared
from maxkernel.modes.pair import PairSession, best_of, find_design, source_diff, speedup
from maxkernel.types import Design, Evaluation, Failure
from maxkernel.web.views.highlight import highlighted
from maxkernel.web.views.marks import Mark, marks
from maxkernel.web.views.pictures import ladder, roofline, timeline

MAX_CALL_CHARACTERS = 60_000
"""Longer questions and answers are cut in pages; the run file has them whole."""


@dataclass(frozen=True)
class Line:
    """One line of source: highlighted (safe HTML), with its mark."""

    number: int
    html: str
    mark: Mark | None
    faulty: bool


@dataclass(frozen=True)
class Trial:
    """One assignment of the constants and its fate."""

    constants: str
    fate: str
    time: Any
    speedup: float | None
    best: bool


@dataclass(frozen=True)
class Talk:
    """One question to a model and its answer."""

    role: str
    model: str
    request: list[dict[str, str]]
    text: str
    error: str
    at: float


@dataclass(frozen=True)
class DesignView:
    """Everything about one design."""

    design: Design
    evaluation: Evaluation | None
    failure: Failure | None
    speedup: float | None
    fraction: float | None
    children: list[int]
    lines: list[Line]
    diff: list[tuple[str, str]]
    """(class, text) per line of the difference to the first parent."""
    diff_parent: int | None
    trials: list[Trial]
    talks: list[Talk]
    timeline: dict[str, Any]
    ladder: dict[str, Any]
    roofline: dict[str, Any]


def design_view(client: PairSession, number: int) -> DesignView:
    """A design by id; raises UsageError when there is none."""
    run, prepared = client.run, client.prepared
    design = find_design(run, number)
    evaluation = best_of(run, number)
    failure = evaluation.failure if evaluation else None
    parent = design.parents[0] if design.parents else None
    bound = prepared.bound.time.seconds if prepared else None
    time = evaluation.time if evaluation and evaluation.accepted else None
    return DesignView(
        design=design,
        evaluation=evaluation,
        failure=failure,
        speedup=speedup(prepared, evaluation) if evaluation else None,
        fraction=bound / time.seconds if bound and time else None,
        children=[d.id for d in run.designs() if number in d.parents],
        lines=source_lines(design.source, marks(design.source, evaluation, prepared), failure),
        diff=diff_lines(source_diff(find_design(run, parent), design)) if parent else [],
        diff_parent=parent,
        trials=_trials(client, number, evaluation, prepared),
        talks=_talks(client, design),
        timeline=timeline(evaluation.program if evaluation else None),
        ladder=ladder(evaluation, prepared),
        roofline=roofline(evaluation, prepared),
    )


def source_lines(source: str, found: dict[int, Mark], failure: Failure | None) -> list[Line]:
    """The source line by line, highlighted and marked."""
    faulty = failure.line if failure else None
    return [
        Line(number, html, found.get(number), number == faulty)
        for number, html in enumerate(highlighted(source), 1)
    ]


def diff_lines(diff: tuple[str, ...]) -> list[tuple[str, str]]:
    """Lines of a unified diff with a class each."""
    classes = {"+": "added", "-": "removed", "@": "place"}
    named = [(classes.get(line[:1], "same"), line) for line in diff]
    return [("file" if line.startswith(("+++", "---")) else kind, line) for kind, line in named]


def _trials(
    client: PairSession, number: int, best: Evaluation | None, prepared: Prepared | None
) -> list[Trial]:
    found: list[Trial] = []
    for design, evaluation in client.run.evaluations():
        if design != number:
            continue
        failure, tunables = evaluation.failure, evaluation.candidate.tunables
        fate = f"{failure.stage}/{failure.kind}: {failure.message}" if failure else "accepted"
        constants = ", ".join(f"{k}={v}" for k, v in tunables.items()) or "defaults"
        time = evaluation.time if evaluation.accepted else None
        found.append(
            Trial(constants, fate, time, speedup(prepared, evaluation), evaluation == best)
        )
    return found


def _talks(client: PairSession, design: Design) -> list[Talk]:
    """The calls whose answer is this design: those that its source was taken from."""
    probe = design.source.strip()[:400]
    return [
        Talk(
            role=call.role,
            model=call.model,
            request=_request(call.request),
            text=call.text[:MAX_CALL_CHARACTERS],
            error=call.error,
            at=call.at,
        )
        for call in calls_of(client.run)
        if probe and (probe in call.text or probe in call.answer)
    ]


def _request(text: str) -> list[dict[str, str]]:
    try:
        parts: Any = json.loads(text)
    except json.JSONDecodeError:
        return [{"by": "", "text": text[:MAX_CALL_CHARACTERS]}]
    return [
        {"by": str(part.get("by")), "text": str(part.get("text"))[:MAX_CALL_CHARACTERS]}
        for part in parts
    ]
