"""The debugger: repairs a refused kernel, and remembers what cured what."""

from __future__ import annotations

from maxkernel.engineers.llm.office import Office
from maxkernel.engineers.llm.planner import BY_MODEL
from maxkernel.engineers.llm.question import Question
from maxkernel.engineers.llm.render import (
    clip,
    data,
    describe_failure,
    describe_plan,
    describe_task,
)
from maxkernel.engineers.llm.robust import BadAnswer, code_of
from maxkernel.engineers.roles import NoAnswer
from maxkernel.knowledge import hardware
from maxkernel.targets import Target
from maxkernel.types import Design, Evaluation, Failure, Plan, TaskInfo

SOURCE_SHARE = 0.4
"""Part of the room that the refused kernel may take."""
SIMILAR = 2
"""Earlier cures of similar failures that are shown."""


class LlmDebugger:
    """Asks a model for the smallest change that cures a failure."""

    def __init__(self, place: Office) -> None:
        self._place = place

    def repair(
        self, info: TaskInfo, plan: Plan, source: str, failure: Failure, target: Target
    ) -> str | None:
        """A changed source; None when nobody knows a cure, the built-in debugger included."""
        self._place.fixes.learn(self._place.archive)
        floor = self._place.floor.debugger
        if plan.options.get("by") != BY_MODEL:
            cured = floor.repair(info, plan, source, failure, target)
            if cured is not None:
                return cured
        chain = self._chain(source)
        tried = {_bare(source), *(_bare(design.source) for design, _ in chain)}

        def parse(text: str) -> str:
            code = code_of(text)
            if _bare(code) in tried:
                raise BadAnswer("loop", "that is a version that was refused before. Change it.")
            return code

        question = Question(
            role="debugger",
            instructions=self._place.instructions("debugger", "contract", "sheet"),
            prompt=lambda room: self._prompt(info, plan, source, failure, target, chain, room),
            parse=parse,
            tools=self._place.tools("search_docs", "read_doc", "compile_kernel", "check_numerics"),
        )
        try:
            return self._place.desk.ask(question)
        except NoAnswer:
            return floor.repair(info, plan, source, failure, target)

    def _chain(self, source: str) -> list[tuple[Design, Failure | None]]:
        """The versions before this one with their failures, oldest first."""
        designs = {design.id: design for design in self._place.archive.designs()}
        found = {e.candidate.source: e for _, e in self._place.archive.evaluations()}
        current = next((d for d in reversed(designs.values()) if d.source == source), None)
        chain: list[tuple[Design, Failure | None]] = []
        while current is not None and current.move.startswith("repair") and current.parents:
            current = designs.get(current.parents[0])
            if current is not None:
                chain.append((current, _failure(found.get(current.source))))
        return chain[::-1]

    def _prompt(
        self,
        info: TaskInfo,
        plan: Plan,
        source: str,
        failure: Failure,
        target: Target,
        chain: list[tuple[Design, Failure | None]],
        room: int,
    ) -> str:
        parts = [
            describe_task(info, self._place.prepared, room // 2),
            f"# Chip\n\n{hardware(target)}",
            describe_plan(plan),
            f"# The kernel\n\n{data('kernel', clip(source, int(room * SOURCE_SHARE)))}",
            describe_failure(failure, source),
        ]
        earlier = [
            f"- {f.stage}/{f.kind}: {clip(f.message, 200)}" for _, f in chain if f is not None
        ]
        if earlier:
            parts.append("# Failures of the versions before it, oldest first\n\n")
            parts[-1] += data("failures", "\n".join(earlier))
        extras = [
            ("# What cured similar failures\n\n", self._place.fixes.similar(failure, SIMILAR)),
            ("# From the guide\n\n", self._hints(failure)),
        ]
        for title, text in extras:
            if text and sum(map(len, parts)) + len(text) < room:
                parts.append(title + data("notes", text))
        parts.append("Write the whole repaired file.")
        return "\n\n".join(parts)

    def _hints(self, failure: Failure) -> str:
        return self._place.hints(f"{failure.message} {failure.kind}", "guide/errors")


def _failure(evaluation: Evaluation | None) -> Failure | None:
    return evaluation.failure if evaluation is not None else None


def _bare(source: str) -> str:
    """A source without blank lines and trailing blanks, to compare versions."""
    return "\n".join(line.rstrip() for line in source.splitlines() if line.strip())
