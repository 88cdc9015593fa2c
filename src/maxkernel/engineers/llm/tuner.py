"""The tuner's adviser: may add choices to the space of tunables; the numeric tuner chooses."""

from __future__ import annotations

from maxkernel.engineers.llm.office import Office
from maxkernel.engineers.llm.question import Question
from maxkernel.engineers.llm.render import constants, describe_plan
from maxkernel.engineers.llm.robust import BadAnswer, json_of
from maxkernel.engineers.roles import NoAnswer
from maxkernel.knowledge import hardware
from maxkernel.targets import Target
from maxkernel.types import Plan, TaskInfo, Tunable, TunableSpace

ADDED = 4
"""Values that may be added per tunable."""


class LlmTuner:
    """Extends what the built-in tuner would search."""

    def __init__(self, place: Office) -> None:
        self._place = place

    def extend(
        self, info: TaskInfo, plan: Plan, space: TunableSpace, target: Target
    ) -> TunableSpace:
        """The declared space, with the model's additions behind the declared choices."""
        space = self._place.floor.tuner.extend(info, plan, space, target)
        if not space:
            return space

        def parse(text: str) -> TunableSpace:
            return merged(space, json_of(text, dict[str, list[Tunable]]))

        question = Question(
            role="tuner",
            instructions=self._place.instructions("tuner"),
            prompt=lambda _: self._prompt(info, plan, space, target),
            parse=parse,
        )
        try:
            return self._place.desk.ask(question)
        except NoAnswer:
            return space

    def _prompt(self, info: TaskInfo, plan: Plan, space: TunableSpace, target: Target) -> str:
        declared = "\n".join(f"- {name}: {list(choices)}" for name, choices in space.items())
        best = self._place.best()
        found = f"Best constants so far: {constants(best[1].candidate.tunables)}." if best else ""
        inputs = "\n".join(f"- {spec}" for spec in (*info.inputs, *info.outputs))
        return "\n\n".join(
            part
            for part in (
                f"# Sizes\n\n{inputs}",
                f"# Chip\n\n{hardware(target)}",
                describe_plan(plan),
                f"# Declared choices, the default first\n\n{declared}",
                found,
            )
            if part
        )


def merged(space: TunableSpace, added: dict[str, list[Tunable]]) -> TunableSpace:
    """`space` with new values behind the old ones. Raises BadAnswer for what does not fit it."""
    unknown = sorted(set(added) - set(space))
    if unknown:
        raise BadAnswer(
            "schema", f"{unknown[0]!r} is not declared; the names are {', '.join(space)}."
        )
    result = dict(space)
    for name, values in added.items():
        kind = type(space[name][0])
        for value in values:
            if type(value) is not kind or (kind in (int, float) and float(value) <= 0):
                raise BadAnswer("schema", f"{name}: {value!r} is no positive {kind.__name__}.")
        new = [value for value in dict.fromkeys(values) if value not in space[name]]
        result[name] = (*space[name], *new[:ADDED])
    return result
