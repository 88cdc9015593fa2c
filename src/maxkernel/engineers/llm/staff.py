"""Puts a team together: which model fills which role, on what budget, with what at hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from maxkernel.config import Settings
from maxkernel.engineers.llm.archive import Archive, NoArchive
from maxkernel.engineers.llm.budget import LlmBudget, Meter, Spent
from maxkernel.engineers.llm.calls import (
    TOOL_EVENT,
    Call,
    Record,
    calls_of,
    record_into,
    spent_by,
    tool_evaluations,
)
from maxkernel.engineers.llm.debugger import LlmDebugger
from maxkernel.engineers.llm.desk import Desk
from maxkernel.engineers.llm.explainer import LlmExplainer
from maxkernel.engineers.llm.fixes import Fixes
from maxkernel.engineers.llm.implementer import LlmImplementer
from maxkernel.engineers.llm.models import (
    ModelSpec,
    check_budget,
    check_installed,
    check_model,
    parse_model,
)
from maxkernel.engineers.llm.mover import LlmMover
from maxkernel.engineers.llm.office import Office
from maxkernel.engineers.llm.planner import LlmPlanner
from maxkernel.engineers.llm.profiler import LlmProfiler
from maxkernel.engineers.llm.question import Question
from maxkernel.engineers.llm.robust import DEFAULT_PATIENCE, Patience, prose_of
from maxkernel.engineers.llm.tester import LlmTester
from maxkernel.engineers.llm.tools import EVALUATIONS, Toolbox
from maxkernel.engineers.llm.tuner import LlmTuner
from maxkernel.engineers.team import Team
from maxkernel.errors import UsageError
from maxkernel.judge import Judge, Prepared
from maxkernel.knowledge import api_sheet, open_library
from maxkernel.store import RunFile
from maxkernel.types import Evaluation

ROLES = (
    "planner",
    "implementer",
    "debugger",
    "mover",
    "tuner",
    "profiler",
    "explainer",
    "tester",
)
BUILTIN = "builtin"
DEFAULT = "default"
"""Key of the models for every role that has none of its own."""

FIXES_FILE = "fixes.sqlite"


@dataclass(frozen=True)
class LlmTeam:
    """A team of models, and what its driver needs of it."""

    team: Team
    tester: LlmTester | None
    desk: Desk
    toolbox: Toolbox
    place: Office

    def __enter__(self) -> LlmTeam:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def spent(self) -> Spent:
        """What the models have used, earlier sessions included."""
        return self.desk.meter.spent

    def stop(self) -> None:
        """Cancels questions under way; these and later ones raise Stopped."""
        self.desk.stop()

    def close(self) -> None:
        """Closes the index and the memory of cures."""
        self.place.library.close()
        self.place.fixes.close()


def chosen_models(models: Mapping[str, Sequence[str]]) -> dict[str, tuple[ModelSpec, ...]]:
    """Models per role from the user's words: by role, or under `default` for all roles.

    `builtin` leaves a role to the built-in engineer. Raises UsageError for a bad notation, an
    unknown role, or a mixture of `builtin` and models in one role.
    """
    unknown = sorted(set(models) - {*ROLES, DEFAULT})
    if unknown:
        raise UsageError(f"there is no role {unknown[0]!r}; roles: {', '.join(ROLES)}")
    chosen: dict[str, tuple[ModelSpec, ...]] = {}
    for role in ROLES:
        words = [word.strip() for word in models.get(role) or models.get(DEFAULT) or ()]
        if BUILTIN in words and len(words) > 1:
            raise UsageError(f"the {role} is either built in or one of the models, not both")
        if words and words != [BUILTIN]:
            chosen[role] = tuple(parse_model(word) for word in words)
    return chosen


def require_models(chosen: Mapping[str, Sequence[ModelSpec]], budget: LlmBudget) -> None:
    """Raises for models that cannot be asked (EnvironmentFault) or paid within `budget`
    (UsageError)."""
    specs = list(dict.fromkeys(spec for models in chosen.values() for spec in models))
    for spec in specs:
        check_model(spec)
    check_budget(specs, budget)


def llm_team(
    models: Mapping[str, Sequence[str]],
    *,
    settings: Settings,
    record: Record,
    budget: LlmBudget | None = None,
    spent: Spent | None = None,
    prepared: Prepared | None = None,
    archive: Archive | None = None,
    judge: Judge | None = None,
    replay: Sequence[Call] | None = None,
    given: Sequence[Call] = (),
    patience: Patience = DEFAULT_PATIENCE,
    floor: Team | None = None,
    evaluations: int = EVALUATIONS,
    judged: Callable[[Evaluation], None] = lambda _: None,
) -> LlmTeam:
    """The team for one task.

    `models` as in `chosen_models`; `record` gets every call; `spent` is what earlier sessions
    used; `archive` the run file; `replay` the recorded calls that answer instead of models, of
    which earlier sessions have used `given`; `evaluations` bounds what tools may have judged, and
    `judged` hears of each. Raises UsageError and EnvironmentFault for models that cannot be asked
    or whose cost cannot be limited.
    """
    chosen = chosen_models(models)
    budget = budget or LlmBudget()
    recording = None
    if replay is None:
        require_models(chosen, budget)
    else:
        check_installed("a replay")
        from maxkernel.engineers.llm.replay import Recording

        recording = Recording(replay, given)
        chosen = chosen or {role: (parse_model(model),) for role, model in recording.models.items()}
    library = open_library(settings)
    desk = Desk(chosen, Meter(budget, spent), record, recording, patience)
    floor = floor or Team.builtin()
    archive = archive or NoArchive()
    toolbox = Toolbox(library, judge, prepared, archive, evaluations, judged)
    place = Office(
        desk=desk,
        library=library,
        sheet=api_sheet(settings.python),
        floor=floor,
        fixes=Fixes(_fixes_path(settings, replay)),
        toolbox=toolbox,
        prepared=prepared,
        archive=archive,
    )
    return LlmTeam(
        team=_team(place, chosen, floor, builtin_mover=_is_builtin(models.get("mover"))),
        tester=LlmTester(place) if "tester" in chosen else None,
        desk=desk,
        toolbox=toolbox,
        place=place,
    )


def team_for_run(
    models: Mapping[str, Sequence[str]],
    run: RunFile,
    judge: Judge,
    prepared: Prepared,
    settings: Settings,
    *,
    budget: LlmBudget | None = None,
    replay: Sequence[Call] | None = None,
    patience: Patience = DEFAULT_PATIENCE,
) -> LlmTeam:
    """The team that drives a run: calls go into its file, and what earlier sessions spent is spent.

    Raises as `llm_team` does.
    """

    known = calls_of(run)

    def judged(evaluation: Evaluation) -> None:
        run.event(TOOL_EVENT, candidate=evaluation.candidate.digest)

    return llm_team(
        models,
        settings=settings,
        record=record_into(run),
        budget=budget,
        spent=spent_by(known),
        prepared=prepared,
        archive=run,
        judge=judge,
        replay=replay,
        given=known,
        patience=patience,
        evaluations=EVALUATIONS - tool_evaluations(run),
        judged=judged,
    )


def probe(word: str, patience: Patience = DEFAULT_PATIENCE) -> str:
    """One short question to a model, for `doctor`: its answer. Raises when there is none."""
    spec = parse_model(word)
    check_model(spec)
    desk = Desk({"probe": [spec]}, Meter(LlmBudget(max_requests=3)), lambda _: None, None, patience)
    return desk.ask(Question("probe", "Answer with one word.", lambda _: "Say: ready", prose_of))


def _team(
    place: Office,
    chosen: Mapping[str, Sequence[ModelSpec]],
    floor: Team,
    *,
    builtin_mover: bool,
) -> Team:
    """A planner without a mover is asked for moves too, unless the built-in mover is wanted."""
    asks_planner = "planner" in chosen and not builtin_mover
    mover = None if asks_planner else floor.mover
    return Team(
        planner=LlmPlanner(place) if "planner" in chosen else floor.planner,
        implementer=LlmImplementer(place) if "implementer" in chosen else floor.implementer,
        debugger=LlmDebugger(place) if "debugger" in chosen else floor.debugger,
        tuner=LlmTuner(place) if "tuner" in chosen else floor.tuner,
        profiler=LlmProfiler(place) if "profiler" in chosen else floor.profiler,
        mover=LlmMover(place) if "mover" in chosen else mover,
        explainer=LlmExplainer(place) if "explainer" in chosen else floor.explainer,
    )


def _is_builtin(words: Sequence[str] | None) -> bool:
    return [word.strip() for word in words or ()] == [BUILTIN]


def _fixes_path(settings: Settings, replay: Sequence[Call] | None) -> Path | None:
    """A replay must not depend on what this machine has learnt since."""
    return None if replay is not None else settings.cache_path / FIXES_FILE
