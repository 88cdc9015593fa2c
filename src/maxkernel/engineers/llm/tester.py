"""The tester: hard inputs for a task, as data. Never the only oracle."""

from __future__ import annotations

from maxkernel.engineers.llm.office import Office
from maxkernel.engineers.llm.question import Question
from maxkernel.engineers.llm.render import describe_task
from maxkernel.engineers.llm.robust import BadAnswer, json_of
from maxkernel.engineers.roles import NoAnswer
from maxkernel.targets import Target
from maxkernel.types import InputCase, TaskInfo

CASES = 6
_INTEGER_ONLY = frozenset({"random_int", "lowest", "highest"})


class LlmTester:
    """Asks a model what could go wrong."""

    def __init__(self, place: Office) -> None:
        self._place = place

    def cases(self, info: TaskInfo, target: Target) -> tuple[InputCase, ...]:
        """Hard inputs for this task; none when nobody knows any."""
        question = Question(
            role="tester",
            instructions=self._place.instructions("tester"),
            prompt=lambda room: describe_task(info, self._place.prepared, room),
            parse=lambda text: checked(info, json_of(text, list[InputCase])),
        )
        try:
            return self._place.desk.ask(question)
        except NoAnswer:
            return ()


def checked(info: TaskInfo, cases: list[InputCase]) -> tuple[InputCase, ...]:
    """The cases, if the task's inputs allow them; raises BadAnswer naming the first that errs."""
    for case in cases:
        for place, fill in case.fills.items():
            if not 0 <= place < len(info.check_inputs):
                raise BadAnswer(
                    "schema",
                    f"case {case.name!r}: there is no input {place}; there are "
                    f"{len(info.check_inputs)}, counted from 0.",
                )
            whole = "int" in info.check_inputs[place].dtype
            if fill in _INTEGER_ONLY and not whole:
                raise BadAnswer(
                    "schema", f"case {case.name!r}: {fill} is for integers, input {place} is not."
                )
    return tuple(cases[:CASES])
