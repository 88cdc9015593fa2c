"""Where the edges of the graph come from: the team's mover, or its planner where it has none."""

from __future__ import annotations

from maxkernel.engineers.roles import GuidedMover
from maxkernel.search.context import Context
from maxkernel.types import Design, Diagnosis, Evaluation, Move, Outcome

MAX_MOVES = 12
"""Moves from one design that are kept, the best first."""


def ask_for_moves(
    context: Context,
    design: Design,
    evaluation: Evaluation,
    partners: tuple[Design, ...],
    history: tuple[Outcome, ...],
) -> tuple[list[Move], list[tuple[Design, Move]]]:
    """Moves from an accepted design, and merges of it with `partners`.

    A team without a mover is asked for plans instead, with the design's own history last, so
    that its planner goes on from there. Raises NoAnswer.
    """
    prepared, mover = context.prepared, context.team.mover
    if mover is None:
        plans = context.team.planner.plan(prepared.info, prepared.target, history)
        return [Move(f"refine: {plan.strategy}", plan) for plan in plans[:MAX_MOVES]], []
    diagnosis = _diagnose(context, evaluation)
    if isinstance(mover, GuidedMover):
        moves, merges = mover.guided(
            prepared.info, design, evaluation, diagnosis, partners, history, prepared.target
        )
        return moves[:MAX_MOVES], merges[:MAX_MOVES]
    moves = mover.moves(prepared.info, design, evaluation, diagnosis, prepared.target)
    merges = mover.merges(prepared.info, design, partners, prepared.target) if partners else []
    return moves[:MAX_MOVES], merges[:MAX_MOVES]


def _diagnose(context: Context, evaluation: Evaluation) -> Diagnosis | None:
    program, prepared = evaluation.program, context.prepared
    if program is None:
        return None
    return context.team.profiler.diagnose(prepared.info, program, prepared.target)
