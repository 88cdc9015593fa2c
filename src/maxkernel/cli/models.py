"""The options of commands that ask models, and what they amount to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from maxkernel.api.team import Models

_NOTATION = (
    "anthropic:NAME, openai:NAME, google:NAME, ollama:NAME, https://HOST/v1#NAME, cli:COMMAND, "
    "relay:FOLDER or builtin; several take turns."
)

Names = list[str] | None
Model = Annotated[Names, typer.Option("--model", metavar="MODEL", help=_NOTATION)]
Planner = Annotated[Names, typer.Option("--planner", metavar="MODEL", help="Says what to try.")]
Implementer = Annotated[
    Names, typer.Option("--implementer", metavar="MODEL", help="Writes kernels.")
]
Debugger = Annotated[Names, typer.Option("--debugger", metavar="MODEL", help="Repairs kernels.")]
Mover = Annotated[
    Names, typer.Option("--mover", metavar="MODEL", help="Says what to change (graph mode).")
]
Tuner = Annotated[Names, typer.Option("--tuner", metavar="MODEL", help="Adds constants to try.")]
Profiler = Annotated[
    Names, typer.Option("--profiler", metavar="MODEL", help="Says what limits a kernel.")
]
Explainer = Annotated[
    Names, typer.Option("--explainer", metavar="MODEL", help="Explains the best kernel.")
]
Tester = Annotated[
    Names, typer.Option("--tester", metavar="MODEL", help="Thinks of hard inputs to judge on.")
]
MaxCost = Annotated[float | None, typer.Option("--max-cost", help="US dollars for models at most.")]
MaxTokens = Annotated[
    int | None, typer.Option("--max-tokens", help="Tokens of models at most, in and out.")
]
MaxRequests = Annotated[
    int | None, typer.Option("--max-requests", help="Requests to models at most.")
]
Record = Annotated[
    str | None,
    typer.Option("--record", metavar="FILE", help="Also write all questions and answers here."),
]
Replay = Annotated[
    str | None,
    typer.Option("--replay", metavar="FILE", help="Answers from such a file; asks no model."),
]


@dataclass(frozen=True)
class Limits:
    """Limits for models as they were given; None leaves a limit as it is."""

    cost: float | None = None
    tokens: int | None = None
    requests: int | None = None


def chosen(
    roles: dict[str, Names], limits: Limits, replay: str | None = None, record: str | None = None
) -> tuple[Models, Path | None]:
    """The models of a new run and the file to record into, both known to work.

    Raises UsageError and EnvironmentFault before anything is started.
    """
    from maxkernel.api.team import check_models, models_of
    from maxkernel.engineers.llm import LlmBudget

    given = {role: names for role, names in roles.items() if names}
    budget = LlmBudget(limits.cost, limits.tokens, limits.requests)
    models, traffic = models_of(given, budget, replay), _path(record)
    check_models(models, traffic)
    return models, traffic


@dataclass(frozen=True)
class Changes:
    """What a resumed run is to do with models otherwise than before."""

    names: Names = None
    """Fill every role."""
    limits: Limits = Limits()
    record: str | None = None

    @property
    def any(self) -> bool:
        """True when there is something to do."""
        return bool(self.names or self.record) or self.limits != Limits()


def changed(before: Models, changes: Changes) -> tuple[Models | None, Path | None]:
    """The models that a resumed run changes to, None where they stay, and the file to record into.

    Raises as `chosen` does, also for models that stay.
    """
    import msgspec

    from maxkernel.api.team import check_models, models_of

    names, limits = changes.names, changes.limits
    models, traffic = models_of(names) if names else before, _path(changes.record)
    kept = before.budget if models.wanted else models.budget
    budget = msgspec.structs.replace(
        kept,
        max_cost=kept.max_cost if limits.cost is None else limits.cost,
        max_tokens=kept.max_tokens if limits.tokens is None else limits.tokens,
        max_requests=kept.max_requests if limits.requests is None else limits.requests,
    )
    models = msgspec.structs.replace(models, budget=budget)
    check_models(models, traffic)
    return (models if models != before else None), traffic


def _path(record: str | None) -> Path | None:
    return Path(record) if record is not None else None
