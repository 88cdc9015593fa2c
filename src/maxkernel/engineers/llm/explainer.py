"""The explainer: what a kernel does and why it is fast, in words."""

from __future__ import annotations

from maxkernel.engineers.llm.office import Office
from maxkernel.engineers.llm.question import Question
from maxkernel.engineers.llm.render import (
    clip,
    data,
    describe_evaluation,
    describe_program,
    describe_task,
)
from maxkernel.engineers.llm.robust import prose_of
from maxkernel.knowledge import hardware
from maxkernel.targets import Target
from maxkernel.types import Evaluation, TaskInfo

SOURCE_SHARE = 0.4


class LlmExplainer:
    """Asks a model to explain."""

    def __init__(self, place: Office) -> None:
        self._place = place

    def explain(
        self, info: TaskInfo, evaluation: Evaluation, target: Target, question: str = ""
    ) -> str:
        """Markdown for the report, or the answer to a person's question. Raises NoAnswer."""

        def prompt(room: int) -> str:
            source = clip(evaluation.candidate.source, int(room * SOURCE_SHARE))
            parts = [
                describe_task(info, self._place.prepared, room // 2),
                f"# Chip\n\n{hardware(target)}",
                f"# The kernel\n\n{data('kernel', source)}",
                f"# What the judge found\n\n{describe_evaluation(evaluation)}",
            ]
            if evaluation.program is not None:
                parts.append(f"# Profile\n\n{describe_program(evaluation.program)}")
            parts.append(f"# The question\n\n{question}" if question else "Explain this kernel.")
            return "\n\n".join(parts)

        return self._place.desk.ask(
            Question(
                role="explainer",
                instructions=self._place.instructions("explainer"),
                prompt=prompt,
                parse=prose_of,
                tools=self._place.tools("search_docs", "read_doc", "show_design"),
            )
        )
