"""Does one job of a search: asks an engineer, asks the judge. Reads the run file, never writes."""

from __future__ import annotations

import msgspec

from maxkernel.engineers.builtin import BuiltinProfiler
from maxkernel.engineers.roles import BudgetSpent, NoAnswer
from maxkernel.search.artifacts import Artifacts
from maxkernel.search.context import Context
from maxkernel.search.inputs import Inputs
from maxkernel.search.job import Job, JobResult, Merge
from maxkernel.search.moves import ask_for_moves
from maxkernel.search.ranking import first_constants, rank
from maxkernel.tuner.rank import fits
from maxkernel.types import (
    Artifact,
    Candidate,
    Design,
    Evaluation,
    Failure,
)


def do_job(context: Context, artifacts: Artifacts, job: Job, inputs: Inputs) -> JobResult:
    """The result of a job. An engineer without an answer is a result with a note."""
    try:
        match job.kind:
            case "plan":
                return _plan(context, inputs)
            case "implement":
                return _implement(context, artifacts, inputs)
            case "repair":
                return _repair(context, artifacts, inputs)
            case "rank":
                return rank(context, job, _stored(context, inputs.design), inputs.example)
            case "tune":
                return _tune(context, artifacts, job, _stored(context, inputs.design))
            case "moves":
                return _moves(context, inputs)
            case "idle":
                return JobResult()
    except BudgetSpent as why:
        return JobResult(note=str(why), spent=True)
    except NoAnswer as why:
        return JobResult(note=str(why))


def _stored(context: Context, id: int) -> Design:
    design = context.run.design(id)
    if design is None:
        raise ValueError(f"design {id} is not written, so no job can work on it")
    return design


def _plan(context: Context, inputs: Inputs) -> JobResult:
    context.progress.stage("plan", None)
    prepared = context.prepared
    plans = context.team.planner.plan(prepared.info, prepared.target, inputs.history)
    return JobResult(plans=tuple(plans))


def _implement(context: Context, artifacts: Artifacts, inputs: Inputs) -> JobResult:
    intent, prepared = inputs.intent, context.prepared
    if intent is None:
        raise ValueError("an implement job needs an intent")
    context.progress.stage("implement", intent.id)
    stored = context.run.intent(intent.id)
    given = stored.source if stored is not None else ""
    source = given or context.team.implementer.implement(
        prepared.info, intent.plan, prepared.target
    )
    design = Design(intent.id, intent.plan, source, intent.move, intent.parents)
    candidate = Candidate(source, first_constants(context, intent, source))
    return _judge(context, artifacts, design, candidate, new=True)


def _repair(context: Context, artifacts: Artifacts, inputs: Inputs) -> JobResult:
    broken, failure = _stored(context, inputs.design), inputs.failure
    prepared = context.prepared
    intent = inputs.intent
    if failure is None or intent is None:
        raise ValueError("a repair needs an intent and a failure")
    context.progress.stage("repair", broken.id)
    source = context.team.debugger.repair(
        prepared.info, broken.plan, broken.source, failure, prepared.target
    )
    if source is None or source == broken.source:
        return JobResult(note=f"nobody knows how to repair {failure.stage}/{failure.kind}")
    design = Design(intent.id, broken.plan, source, intent.move, intent.parents)
    return _judge(context, artifacts, design, Candidate(source), new=True)


def _tune(context: Context, artifacts: Artifacts, job: Job, design: Design) -> JobResult:
    candidate = Candidate(design.source, job.tunables)
    return _judge(context, artifacts, design, candidate, new=False)


def _judge(
    context: Context, artifacts: Artifacts, design: Design, candidate: Candidate, *, new: bool
) -> JobResult:
    """Captures, and goes on only when the program is new.

    Constants with which nothing can be captured, or that do not fit, cost no evaluation.
    """
    found = design if new else None
    digest = candidate.digest
    context.progress.stage("capture", design.id)
    captured = context.judge.capture(context.prepared, candidate)[0]
    if isinstance(captured, Failure):
        if not new:
            return JobResult(found, None, digest, misfit=True, note=captured.message)
        refused = context.judge.evaluate(context.prepared, candidate, captured=captured)
        return JobResult(found, refused, digest)
    program = captured.digest
    if artifacts.settled(program):
        return JobResult(found, None, digest, same_as=program)
    if not new and not fits(captured.facts, context.prepared.target):
        return JobResult(found, None, digest, misfit=True, artifact=program)
    evaluation = artifacts.once(program, lambda: _evaluate(context, design, candidate, captured))
    if evaluation.candidate != candidate:
        evaluation = _for(evaluation, candidate)
    return JobResult(found, evaluation, digest, limit=_limit(context, evaluation))


def _evaluate(
    context: Context, design: Design, candidate: Candidate, captured: Artifact
) -> Evaluation:
    return context.judge.evaluate(
        context.prepared,
        candidate,
        lambda stage: context.progress.stage(stage, design.id),
        captured,
    )


def _for(evaluation: Evaluation, candidate: Candidate) -> Evaluation:
    """The same findings for another source of the same program."""
    return msgspec.structs.replace(
        evaluation, candidate=candidate, elapsed={}, cached=("artifact",)
    )


def _limit(context: Context, evaluation: Evaluation) -> str:
    """What an accepted program waits for: the same rule for every team, so niches compare."""
    program, prepared = evaluation.program, context.prepared
    if not evaluation.accepted or program is None:
        return ""
    return BuiltinProfiler().diagnose(prepared.info, program, prepared.target).limit


def _moves(context: Context, inputs: Inputs) -> JobResult:
    run, design = context.run, _stored(context, inputs.design)
    evaluation = run.evaluation(inputs.best)
    if evaluation is None:
        raise ValueError("moves start from an accepted design")
    context.progress.stage("moves", design.id)
    partners = tuple(p for id in inputs.partners if (p := run.design(id)) is not None)
    moves, merges = ask_for_moves(context, design, evaluation, partners, inputs.history)
    return JobResult(
        moves=tuple(moves), merges=tuple(Merge(other.id, move) for other, move in merges)
    )
