"""The implementer: writes the kernel that a plan asks for."""

from __future__ import annotations

from maxkernel.engineers.llm.mover import MERGE_WITH
from maxkernel.engineers.llm.office import Office
from maxkernel.engineers.llm.planner import BY_MODEL
from maxkernel.engineers.llm.question import Question
from maxkernel.engineers.llm.render import (
    clip,
    data,
    describe_evaluation,
    describe_plan,
    describe_task,
)
from maxkernel.engineers.llm.robust import code_of
from maxkernel.engineers.roles import NoAnswer
from maxkernel.knowledge import hardware
from maxkernel.targets import Target
from maxkernel.types import Plan, TaskInfo

EXAMPLE = "guide/writing-candidates/a-complete-example"
SOURCE_SHARE = 0.4
"""Part of the room that the kernel to start from may take."""


class LlmImplementer:
    """Writes model plans with a model; the built-in engineer's plans are written by itself."""

    def __init__(self, place: Office) -> None:
        self._place = place

    def implement(self, info: TaskInfo, plan: Plan, target: Target) -> str:
        """Source of a candidate. Raises NoAnswer when nobody can write it."""
        if plan.options.get("by") != BY_MODEL:
            try:
                return self._place.floor.implementer.implement(info, plan, target)
            except NoAnswer:
                pass
        start = self._start(info, plan, target)
        question = Question(
            role="implementer",
            instructions=self._place.instructions("implementer", "contract", "sheet"),
            prompt=lambda room: self._prompt(info, plan, target, start, room),
            parse=code_of,
            tools=self._place.tools("search_docs", "read_doc", "show_design"),
        )
        return self._place.desk.ask(question)

    def _start(self, info: TaskInfo, plan: Plan, target: Target) -> str:
        """The kernel to start from, introduced: the plan's base, the built-in one, an example."""
        base = plan.options.get("base")
        design = self._place.design(base) if isinstance(base, int) else None
        if design is not None:
            best = self._place.best_of(design.id)
            found = describe_evaluation(best) if best is not None else "It was refused."
            start = f"# Start from design {design.id}\n\n{found}\n\n{data('kernel', design.source)}"
            return f"{start}{self._second(plan)}"
        source = self._builtin(info, target)
        if source is None:
            example = self._place.library.read_doc(EXAMPLE) or ""
            return f"# An example of another kernel\n\n{data('guide', example)}"
        return (
            "# A kernel for this task by the built-in engineer\n\nIt is right. Take from it what "
            f"the plan can use.\n\n{data('kernel', source)}"
        )

    def _second(self, plan: Plan) -> str:
        """The other kernel of a merge, introduced; empty where there is none."""
        other = plan.options.get(MERGE_WITH)
        design = self._place.design(other) if isinstance(other, int) else None
        if design is None:
            return ""
        title = f"# Take from design {design.id} ({design.plan.strategy}) what the plan says"
        return f"\n\n{title}\n\n{data('kernel', design.source)}"

    def _builtin(self, info: TaskInfo, target: Target) -> str | None:
        for plan in self._place.floor_plans(info, target, ())[:1]:
            try:
                return self._place.floor.implementer.implement(info, plan, target)
            except NoAnswer:
                return None
        return None

    def _prompt(self, info: TaskInfo, plan: Plan, target: Target, start: str, room: int) -> str:
        parts = [
            describe_task(info, self._place.prepared, room),
            f"# Chip\n\n{hardware(target)}",
            describe_plan(plan),
        ]
        parts.append(clip(start, int(room * SOURCE_SHARE)))
        hints = self._place.hints(f"{plan.strategy} {plan.family}")
        if hints and sum(map(len, parts)) + len(hints) < room:
            parts.append("# From the guide\n\n" + data("guide", hints))
        parts.append("Write the whole file.")
        return "\n\n".join(parts)
