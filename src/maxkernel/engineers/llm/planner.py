"""The planner: what to build next, from the task, the chip, and everything tried so far."""

from __future__ import annotations

import hashlib
from functools import cache

import msgspec

from maxkernel.engineers.llm.office import Office
from maxkernel.engineers.llm.question import Question
from maxkernel.engineers.llm.render import (
    clip,
    data,
    describe_evaluation,
    describe_history,
    describe_task,
)
from maxkernel.engineers.llm.robust import BadAnswer, json_of
from maxkernel.engineers.roles import BudgetSpent, NoAnswer
from maxkernel.knowledge import hardware, strategy_titles
from maxkernel.targets import Target
from maxkernel.types import Outcome, Plan, TaskInfo

PLANS = 4
"""Plans per answer."""
KEPT_OF_MENU = 3, 4
"""Share of the strategy menu that is shown: another part each time, so that ideas differ."""
SOURCE_SHARE = 0.25
"""Part of the room that the source of the best kernel may take, and that of the latest one."""

BY_MODEL = "model"
"""Value of a plan's option `by` that tells a model's plans from the built-in engineer's."""


class Idea(msgspec.Struct, frozen=True):
    """A plan as the model writes it."""

    strategy: str
    reason: str
    change: str = ""
    keep: str = ""
    family: str = "other"
    base: int | None = None
    speedup: float | None = None


class LlmPlanner:
    """Asks a model for plans; begins with the built-in engineer's best, so there is a floor."""

    def __init__(self, place: Office) -> None:
        self._place = place

    def plan(self, info: TaskInfo, target: Target, history: tuple[Outcome, ...]) -> list[Plan]:
        """New plans, the most promising first. Raises BudgetSpent; NoAnswer when there is nobody
        left to ask, the built-in engineer included."""
        floor = self._place.floor_plans(info, target, history)
        known = {(o.plan.strategy.casefold(), o.plan.options.get("base")) for o in history}

        def parse(text: str) -> list[Plan]:
            ideas = json_of(text, list[Idea])
            if any(not idea.strategy.strip() for idea in ideas):
                raise BadAnswer("schema", "every plan needs a name in `strategy`.")
            plans = [self._plan(idea, baseline) for idea in ideas]
            new = [p for p in plans if (p.strategy.casefold(), p.options.get("base")) not in known]
            if ideas and not new:
                raise BadAnswer("loop", "all of these were tried. Propose plans that differ.")
            return new[:PLANS]

        prepared = self._place.prepared
        baseline = prepared.xla.seconds if prepared and prepared.xla else None
        question = Question(
            role="planner",
            instructions=self._place.instructions("planner"),
            prompt=lambda room: self._prompt(info, target, history, room),
            parse=parse,
            tools=self._place.tools("search_docs", "read_doc", "show_design"),
        )
        try:
            plans = self._place.desk.ask(question)
        except BudgetSpent:
            raise
        except NoAnswer:
            if not floor:
                raise
            return floor[:PLANS]
        return [*floor[:1], *plans][:PLANS] if not history else plans

    def _plan(self, idea: Idea, baseline: float | None) -> Plan:
        options: dict[str, int | float | bool | str] = {"by": BY_MODEL}
        if idea.change:
            options["change"] = idea.change
        if idea.keep:
            options["keep"] = idea.keep
        if self._place.design(idea.base) is not None and idea.base is not None:
            options["base"] = idea.base
        sensible = idea.speedup is not None and idea.speedup > 0
        expected = baseline / idea.speedup if baseline and idea.speedup and sensible else None
        return Plan(idea.family, idea.strategy.strip(), idea.reason, options, expected)

    def _prompt(
        self, info: TaskInfo, target: Target, history: tuple[Outcome, ...], room: int
    ) -> str:
        parts = [
            describe_task(info, self._place.prepared, room),
            f"# Chip\n\n{hardware(target)}",
            f"# Some known strategies (look them up for details)\n\n{menu(info, len(history))}",
        ]
        parts += self._kernels(history, int(room * SOURCE_SHARE))
        left = room - sum(map(len, parts))
        parts.append(describe_history(history, max(left, room // 10)))
        parts.append(f"Propose up to {PLANS} plans.")
        return "\n\n".join(parts)

    def _kernels(self, history: tuple[Outcome, ...], room: int) -> list[str]:
        """The best kernel and the latest one, with what the judge found."""
        best = self._place.best()
        shown = [("The best kernel so far", *best)] if best is not None else []
        latest = next((o.design for o in reversed(history) if o.seconds is not None), None)
        design = self._place.design(latest)
        if design is not None and (best is None or design.id != best[0].id):
            evaluation = self._place.best_of(design.id)
            if evaluation is not None:
                shown.append(("The latest kernel that works", design, evaluation))
        return [
            f"# {title}: design {design.id}, {design.plan.strategy}\n\n"
            f"{describe_evaluation(evaluation)}\n\n{data('kernel', clip(design.source, room))}"
            for title, design, evaluation in shown
        ]


def menu(info: TaskInfo, turn: int) -> str:
    """Titles of the guide's strategies, a quarter left out: another one for each task and turn."""
    kept, of = KEPT_OF_MENU
    return "; ".join(t for t in _titles() if _draw(f"{info.task}/{turn}/{t}") % of < kept)


@cache
def _titles() -> tuple[str, ...]:
    return strategy_titles()


def _draw(text: str) -> int:
    return hashlib.sha256(text.encode()).digest()[0]
