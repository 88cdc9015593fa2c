"""Who fills the roles of a run: models that the user chose, kept in the run file, or built in."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol, runtime_checkable

import msgspec

from maxkernel.api.interrupt import interruptible
from maxkernel.api.session import Session
from maxkernel.engineers.llm import (
    DEFAULT,
    Call,
    Desk,
    LlmBudget,
    LlmTeam,
    Spent,
    calls_of,
    chosen_models,
    forecast,
    holds_secret,
    price_of,
    read_traffic,
    require_models,
    team_for_run,
    warm_up,
    write_traffic,
)
from maxkernel.engineers.team import Team
from maxkernel.errors import UsageError
from maxkernel.judge import Prepared
from maxkernel.store import RunFile
from maxkernel.types import Budget

TESTER = "tester"
MODELS = "models"
"""Key of the header's options, and kind of the events, that hold a `Models`."""
TROUBLES = "model troubles"
"""Kind of the events that count, at the end of a session, what went wrong with models."""

ROUND = 8
"""Evaluations of a round, for the forecast: four plans, and as many repairs and tunings."""


class Models(msgspec.Struct, frozen=True):
    """The models of a run and their limits, as the run file keeps them. Never a key."""

    by_role: dict[str, tuple[str, ...]] = {}
    """Notations by role, `default` for roles without their own; see `chosen_models`."""
    budget: LlmBudget = LlmBudget()
    replay: str = ""
    """File of recorded traffic that answers instead of the models."""

    @property
    def wanted(self) -> bool:
        """Some role is filled by a model or by a record."""
        return bool(self.replay or chosen_models(self.by_role))


@runtime_checkable
class ModelWatcher(Protocol):
    """A `Progress` that also wants to know what models will use and have used."""

    def models(self, forecast: str, spent: Callable[[], Spent]) -> None:
        """What is expected, in words, and how to ask what has been used so far."""
        ...


@runtime_checkable
class DeskWatcher(Protocol):
    """A watcher that also wants the desk at which models are asked: to hear, or to cancel."""

    def desk(self, desk: Desk) -> None:
        """This desk is open until the team is let go."""
        ...


def models_of(
    models: str | Sequence[str] | Mapping[str, str | Sequence[str]] | None,
    budget: LlmBudget | None = None,
    replay: str | Path | None = None,
) -> Models:
    """The models in the forms that callers like: one notation, several, or by role."""
    if models is None:
        models = {}
    if not isinstance(models, Mapping):
        models = {DEFAULT: models}
    by_role = {role: (m,) if isinstance(m, str) else tuple(m) for role, m in models.items()}
    path = str(Path(replay).expanduser().resolve()) if replay is not None else ""
    return Models({role: m for role, m in by_role.items() if m}, budget or LlmBudget(), path)


def check_models(models: Models, record: Path | None = None) -> None:
    """Raises UsageError or EnvironmentFault for what would not work, before any work is done."""
    chosen = chosen_models(models.by_role)
    for word in (word for words in models.by_role.values() for word in words):
        if holds_secret(word):
            raise UsageError(
                "the name of a model holds a key from the environment, and run files keep names",
                "let the command read the variable itself, for example cli:'sh ask.sh'",
            )
    for name, limit in msgspec.structs.asdict(models.budget).items():
        if limit is not None and limit <= 0:
            what = name.removeprefix("max_")
            raise UsageError(f"the models' budget allows {limit:g} {what}; it needs more than 0")
        if limit is not None and not models.wanted:
            raise UsageError(
                f"--{name.replace('_', '-')} limits models, and no role has one",
                "name one with --model",
            )
    if models.replay:
        read_traffic(Path(models.replay))
    else:
        require_models(chosen, models.budget)
    if record is not None:
        _require_writable(record, models)


def warm_models(models: Models) -> None:
    """Has the SDKs of the models imported in the background, while workers start and compile."""
    if not models.replay and (chosen := chosen_models(models.by_role)):
        warm_up(spec for specs in chosen.values() for spec in specs)


def models_in_force(run: RunFile) -> Models:
    """The models of a run: those given last."""
    given = [event.body for event in run.events() if event.kind == MODELS]
    stored = given[-1] if given else run.header.options.get(MODELS)
    return msgspec.convert(stored, Models) if stored else Models()


def change_models(run: RunFile, models: Models) -> None:
    """These models fill the roles from now on."""
    run.event(MODELS, **msgspec.to_builtins(models))


@contextmanager
def staffed(
    session: Session,
    run: RunFile,
    prepared: Prepared,
    budget: Budget,
    floor: Team,
    watcher: object = None,
    record: Path | None = None,
) -> Generator[Team]:
    """The team that drives a run: its models, or `floor` where it has none.

    Everything that models were asked and answered is also written to `record`, however the run
    ends. An interrupt (Ctrl-C) cancels the questions under way.
    """
    models = models_in_force(run)
    if not models.wanted:
        yield floor
        return
    traffic = read_traffic(Path(models.replay)) if models.replay else None
    llm = team_for_run(
        models.by_role,
        run,
        session.judge,
        prepared,
        session.settings,
        budget=models.budget,
        replay=traffic,
    )
    try:
        with llm, interruptible(llm.stop):
            if isinstance(watcher, ModelWatcher):
                watcher.models(describe_forecast(models, budget, traffic), lambda: llm.spent)
            if isinstance(watcher, DeskWatcher):
                watcher.desk(llm.desk)
            try:
                yield _with_tester(llm, models)
            finally:
                _note_troubles(run, llm)
    finally:
        if record is not None:
            write_traffic(record, calls_of(run))


def _with_tester(llm: LlmTeam, models: Models) -> Team:
    """The team, with a tester where one was named: `default` alone asks for none."""
    return replace(llm.team, tester=llm.tester) if TESTER in models.by_role else llm.team


def describe_forecast(models: Models, budget: Budget, traffic: Sequence[Call] | None = None) -> str:
    """What a run is expected to use of its models, in words, and what it may use."""
    if traffic is not None:
        return f"models: {len(traffic)} recorded calls answer, from {models.replay}"
    chosen = chosen_models(models.by_role)
    rounds = max(1, math.ceil(budget.candidates / ROUND))
    expected = forecast(chosen, rounds)
    specs = list(dict.fromkeys(spec for specs in chosen.values() for spec in specs))
    if expected.cost is not None:
        cost = f"${expected.cost:.2f}"
    else:
        unknown = ", ".join(str(spec) for spec in specs if price_of(spec) is None)
        cost = f"price unknown for {unknown}"
    tokens = f"{_thousands(expected.input_tokens)} tokens in"
    tokens += f" and {_thousands(expected.output_tokens)} out"
    limits = _limits(models.budget) or "none"
    return (
        f"models: {', '.join(map(str, specs))}; forecast for {rounds} rounds: about "
        f"{expected.requests} requests, {tokens}, {cost}; limits: {limits}"
    )


def _limits(budget: LlmBudget) -> str:
    parts = (
        f"${budget.max_cost:g}" if budget.max_cost is not None else "",
        f"{budget.max_tokens} tokens" if budget.max_tokens is not None else "",
        f"{budget.max_requests} requests" if budget.max_requests is not None else "",
    )
    return ", ".join(part for part in parts if part)


def _thousands(count: int) -> str:
    return f"{count / 1000:.0f}k"


def _note_troubles(run: RunFile, llm: LlmTeam) -> None:
    counts, drift = llm.desk.troubles.counts(), llm.desk.drift
    if counts or drift:
        run.event(TROUBLES, counts=counts, drift=drift)


def _require_writable(record: Path, models: Models) -> None:
    if not models.wanted:
        raise UsageError(f"nothing to record in {record}: no role has a model", "add --model")
    if models.replay and record.expanduser().resolve() == Path(models.replay):
        raise UsageError(f"cannot record into {record}: the replay reads it")
    try:
        with record.open("ab"):
            pass
    except OSError as error:
        raise UsageError(f"cannot record into {record}: {error.strerror}") from error
