"""The mover: what to change in a kernel that works, and what to take from another one."""

from __future__ import annotations

import math

import msgspec

from maxkernel.engineers.llm.office import Office
from maxkernel.engineers.llm.planner import BY_MODEL
from maxkernel.engineers.llm.question import Question
from maxkernel.engineers.llm.render import (
    clip,
    data,
    describe_evaluation,
    describe_history,
    describe_plan,
    describe_program,
    describe_task,
)
from maxkernel.engineers.llm.robust import BadAnswer, json_of
from maxkernel.engineers.roles import BudgetSpent, NoAnswer
from maxkernel.knowledge import hardware
from maxkernel.targets import Target
from maxkernel.types import Design, Diagnosis, Evaluation, Move, Outcome, Plan, TaskInfo

MOVES = 4
"""Moves per answer."""
SOURCE_SHARE = 0.3
"""Part of the room that the kernel may take."""
PARTNER_SHARE = 0.12
"""Part of it for each kernel to merge with."""
BEST_GAIN = math.log(2.0)
"""Largest ln gain that a model's estimate is taken for: they promise more than comes of it."""
USUAL_GAIN = 0.05
"""ln gain where the model gives no estimate, as of the built-in rewrites."""

MERGE_WITH = "with"
"""Option of a plan: the second design that it takes from."""


class Step(msgspec.Struct, frozen=True):
    """A move as the model writes it."""

    strategy: str
    reason: str
    change: str
    keep: str = ""
    merge: int | None = None
    speedup: float | None = None


class LlmMover:
    """Adds a model's moves to the built-in rewrites, which cost nothing."""

    def __init__(self, place: Office) -> None:
        self._place = place

    def moves(
        self,
        info: TaskInfo,
        design: Design,
        evaluation: Evaluation,
        diagnosis: Diagnosis | None,
        target: Target,
    ) -> list[Move]:
        """The model's moves and the built-in ones, without a history."""
        return self.guided(info, design, evaluation, diagnosis, (), (), target)[0]

    def merges(
        self, info: TaskInfo, design: Design, others: tuple[Design, ...], target: Target
    ) -> list[tuple[Design, Move]]:
        """Built-in merges; a model proposes its own together with its moves, in `guided`."""
        floor = self._place.floor.mover
        return floor.merges(info, design, others, target) if floor is not None else []

    def guided(
        self,
        info: TaskInfo,
        design: Design,
        evaluation: Evaluation,
        diagnosis: Diagnosis | None,
        partners: tuple[Design, ...],
        history: tuple[Outcome, ...],
        target: Target,
    ) -> tuple[list[Move], list[tuple[Design, Move]]]:
        """Moves and merges, the model's first. Raises BudgetSpent; NoAnswer when the model has no
        answer and no rewrite applies."""
        floor = self._place.floor.mover
        own = floor.moves(info, design, evaluation, diagnosis, target) if floor is not None else []
        joins = self.merges(info, design, partners, target)
        question = Question(
            role="mover",
            instructions=self._place.instructions("mover"),
            prompt=lambda room: self._prompt(
                info, design, evaluation, diagnosis, partners, history, target, room
            ),
            parse=lambda text: _parsed(text, design, partners, history),
            tools=self._place.tools("search_docs", "read_doc", "show_design"),
        )
        try:
            moves, merges = self._place.desk.ask(question)
        except BudgetSpent:
            raise
        except NoAnswer:
            if not own and not joins:
                raise
            return own, joins
        return [*moves, *own], [*merges, *joins]

    def _prompt(
        self,
        info: TaskInfo,
        design: Design,
        evaluation: Evaluation,
        diagnosis: Diagnosis | None,
        partners: tuple[Design, ...],
        history: tuple[Outcome, ...],
        target: Target,
        room: int,
    ) -> str:
        source = clip(design.source, int(room * SOURCE_SHARE))
        parts = [
            describe_task(info, self._place.prepared, room // 2),
            f"# Chip\n\n{hardware(target)}",
            f"# The kernel to start from: design {design.id}\n\n"
            f"{describe_evaluation(evaluation)}\n\n{data('kernel', source)}",
            describe_plan(design.plan),
        ]
        if evaluation.program is not None:
            parts.append(f"# Profile\n\n{describe_program(evaluation.program)}")
        if diagnosis is not None:
            parts.append(f"# What limits it\n\n{data('diagnosis', diagnosis.text)}")
        parts += [self._partner(other, int(room * PARTNER_SHARE)) for other in partners]
        left = room - sum(map(len, parts))
        parts.append(describe_history(history, max(left, room // 10)))
        parts.append(f"Propose up to {MOVES} moves from design {design.id}.")
        return "\n\n".join(parts)

    def _partner(self, other: Design, room: int) -> str:
        best = self._place.best_of(other.id)
        found = describe_evaluation(best) if best is not None else "It was refused."
        return (
            f"# A design that it could be merged with: design {other.id}, {other.plan.strategy}"
            f"\n\n{found}\n\n{data('kernel', clip(other.source, room))}"
        )


def _parsed(
    text: str, design: Design, partners: tuple[Design, ...], history: tuple[Outcome, ...]
) -> tuple[list[Move], list[tuple[Design, Move]]]:
    """An answer as moves and merges; raises BadAnswer."""
    steps = json_of(text, list[Step])[:MOVES]
    if any(not step.strategy.strip() or not step.change.strip() for step in steps):
        raise BadAnswer("schema", "every move needs a name in `strategy` and its `change`.")
    others = {other.id: other for other in partners}
    unknown = [s.merge for s in steps if s.merge is not None and s.merge not in others]
    if unknown:
        known = ", ".join(map(str, others)) or "none"
        raise BadAnswer("schema", f"`merge` names {unknown[0]}; it may name: {known}.")
    tried = {o.plan.strategy.casefold() for o in history if o.plan.options.get("base") == design.id}
    new = [step for step in steps if step.strategy.strip().casefold() not in tried]
    if steps and not new:
        raise BadAnswer("loop", "all of these were tried from this design. Propose others.")
    moves = [_move(step, design) for step in new if step.merge is None]
    merges = [(others[s.merge], _move(s, design)) for s in new if s.merge is not None]
    return moves, merges


def _move(step: Step, design: Design) -> Move:
    name = step.strategy.strip()
    options: dict[str, int | float | bool | str] = {"by": BY_MODEL, "base": design.id}
    options["change"] = step.change
    if step.keep:
        options["keep"] = step.keep
    if step.merge is not None:
        options[MERGE_WITH] = step.merge
    gain = USUAL_GAIN
    if step.speedup is not None and step.speedup > 0:
        gain = max(-BEST_GAIN, min(BEST_GAIN, math.log(step.speedup)))
    kind = "refine" if step.merge is None else "merge"
    return Move(f"{kind}: {name}", Plan(design.plan.family, name, step.reason, options), gain)
