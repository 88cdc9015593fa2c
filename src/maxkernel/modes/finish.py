"""The end of a run, whatever drove it: the fastest kernel is confirmed and explained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from maxkernel.engineers.roles import NoAnswer
from maxkernel.errors import EnvironmentFault
from maxkernel.search import Context
from maxkernel.types import WON, Confirmation, Evaluation, Verdict

Reason = Literal["budget", "roofline", "no gain", "no plan", "stopped", "accepted"]
"""`accepted`: a person was content with what there is."""


class Finish(msgspec.Struct, frozen=True):
    """How a run ended."""

    outcome: Literal["faster", "fits", "xla", "none"]
    """`faster`: the winner beats XLA beyond the clock's error; `fits`: it runs where XLA's program
    does not fit; `xla`: kernels were accepted but none is faster; `none`: none was accepted."""
    reason: Reason
    best: Verdict | None
    """The best accepted kernel, whether or not it beats XLA."""
    design: int | None
    confirmed: bool
    """The winner passed further checks on fresh inputs."""
    explanation: str = ""
    """What the best kernel does and what limits it."""
    confirmation: Confirmation | None = None
    """What the winner went through once more."""


def finish(context: Context, reason: Reason, explain: Callable[[int], str]) -> Finish:
    """Confirms the fastest kernel on fresh inputs; one that fails makes way for the next.

    `explain` says what a design does and what limits it; a team with an explainer is asked for
    better words on the winner.
    """
    accepted = [(d, e) for d, e in context.run.evaluations() if e.accepted]
    problem = ""
    for design, evaluation in sorted(accepted, key=_seconds):
        verdict = context.judge.verdict(context.prepared, evaluation)
        if verdict.outcome not in WON:
            words = f"faster kernels were {problem}. " if problem else ""
            return Finish("xla", reason, verdict, design, False, words + explain(design))
        context.progress.stage("confirm", design)
        found = context.judge.confirm(context.prepared, evaluation.candidate)
        if found.failure is None:
            context.run.event("confirmed", design=design)
            words = explain(design)
            if reason != "stopped":
                words = _explained(context, evaluation) or words
            return Finish(verdict.outcome, reason, verdict, design, True, words, found)
        context.run.event("unconfirmed", design=design, failure=found.failure.message)
        problem = problem or f"accepted, but not confirmed: {found.failure.message}"
    return Finish("none", reason, None, None, False, problem)


def _explained(context: Context, evaluation: Evaluation) -> str:
    """The explainer's words on the winner; empty where there is none, or none that answers."""
    explainer, prepared = context.team.explainer, context.prepared
    if explainer is None:
        return ""
    context.progress.stage("explain", None)
    try:
        return context.run.step(
            f"explanation/{evaluation.candidate.digest}",
            str,
            lambda: explainer.explain(prepared.info, evaluation, prepared.target),
        )
    except (NoAnswer, EnvironmentFault) as error:
        context.run.event("no answer", role="explainer", message=error.message)
        return ""


def _seconds(found: tuple[int, Evaluation]) -> float:
    time = found[1].time
    return time.seconds if time is not None else float("inf")
