"""The profiler: what limits a timed kernel, which lines cause it, what to do about it."""

from __future__ import annotations

import msgspec

from maxkernel.engineers.llm.office import Office
from maxkernel.engineers.llm.question import Question
from maxkernel.engineers.llm.render import clip, data, describe_plan, describe_program
from maxkernel.engineers.llm.robust import json_of
from maxkernel.engineers.roles import NoAnswer
from maxkernel.knowledge import hardware
from maxkernel.targets import Target
from maxkernel.types import Diagnosis, Plan, ProgramTime, TaskInfo
from maxkernel.types.search import Limit

SOURCE_SHARE = 0.5
TEXT = 1200
"""Characters of a diagnosis: planners read many of them."""


class Reading(msgspec.Struct, frozen=True):
    """A diagnosis as the model writes it."""

    limit: Limit
    cause: str
    remedies: list[str] = []


class LlmProfiler:
    """Adds cause and remedies to the built-in profiler's figures."""

    def __init__(self, place: Office) -> None:
        self._place = place

    def diagnose(self, info: TaskInfo, program: ProgramTime, target: Target) -> Diagnosis:
        """The built-in diagnosis, with the cause in the source when the run holds the source."""
        for design, evaluation in reversed(self._place.archive.evaluations()):
            if evaluation.program == program:
                found = self._place.design(design)
                if found is not None:
                    return self.diagnose_source(info, found.plan, found.source, program, target)
        return self._place.floor.profiler.diagnose(info, program, target)

    def diagnose_source(
        self, info: TaskInfo, plan: Plan, source: str, program: ProgramTime, target: Target
    ) -> Diagnosis:
        """What limits the program, its cause in `source`, and ranked remedies."""
        known = self._place.floor.profiler.diagnose(info, program, target)

        def prompt(room: int) -> str:
            return "\n\n".join(
                (
                    f"# Chip\n\n{hardware(target)}",
                    describe_plan(plan),
                    f"# Profile\n\n{describe_program(program, source)}\n{known.text}",
                    data("kernel", clip(source, int(room * SOURCE_SHARE))),
                )
            )

        question = Question(
            role="profiler",
            instructions=self._place.instructions("profiler"),
            prompt=prompt,
            parse=lambda text: json_of(text, Reading),
            tools=self._place.tools("search_docs", "read_doc"),
        )
        try:
            reading = self._place.desk.ask(question)
        except NoAnswer:
            return known
        remedies = "; ".join(f"({n}) {text}" for n, text in enumerate(reading.remedies, 1))
        text = f"{known.text}. Cause: {reading.cause}"
        if remedies:
            text += f" Remedies: {remedies}"
        return Diagnosis(reading.limit, clip(text, TEXT), known.figures)
