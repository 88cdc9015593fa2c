"""A move is judged first with the best constants that its parents have when its turn comes."""

from __future__ import annotations

from maxkernel.search.board import Board
from maxkernel.search.inputs import inputs_of
from maxkernel.search.job import Job
from maxkernel.search.options import Scale
from maxkernel.types import Candidate, Design, Evaluation, Move, Plan, Time

SOURCE, CHANGED = "def kernel(x): ...", "def kernel(x): return x"


def trial(seconds: float, **constants: int) -> Evaluation:
    return Evaluation(
        Candidate(SOURCE, constants), "t", "v6e", "none",
        time=Time(seconds, "simulated"),
    )  # fmt: skip


def test_what_was_tuned_after_a_move_was_thought_of_counts() -> None:
    board = Board(Scale(1.0))
    plan = Plan("f", "s", "r")
    first = board.intend(Move("plan", plan), ())
    assert first is not None
    board.graph.add_design(Design(first.id, plan, SOURCE, "plan"))
    board.graph.add_evaluation(first.id, trial(0.9, block=256, chunk=64))
    made = Plan("f", "s", "r", {"unroll": 4})
    move = board.intend(Move("refine: unroll", made, 0.01, CHANGED), (first.id,))
    assert move is not None and move.tunables == {"block": 256, "chunk": 64}
    board.graph.add_evaluation(first.id, trial(0.8, block=512, chunk=64))
    board.graph.add_evaluation(first.id, trial(1.2, block=128, chunk=64))
    given = inputs_of(board, Job(7, "implement", move.id), history=False).intent
    assert given is not None and given.id == move.id and given.plan == made
    assert given.tunables == {"block": 512, "chunk": 64}
