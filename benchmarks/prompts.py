"""Sizes of every role's prompt, for a fresh run and for one with a long history.

Run with `python -m benchmarks.prompts`. `tests/llm` keeps the sizes under the limits below.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import NoReturn, TypeVar

import msgspec

from maxkernel.config import Settings, load_settings
from maxkernel.engineers.llm import Desk, LlmBudget, Meter, Toolbox
from maxkernel.engineers.llm.archive import Archive
from maxkernel.engineers.llm.debugger import LlmDebugger
from maxkernel.engineers.llm.explainer import LlmExplainer
from maxkernel.engineers.llm.fixes import Fixes
from maxkernel.engineers.llm.implementer import LlmImplementer
from maxkernel.engineers.llm.mover import LlmMover
from maxkernel.engineers.llm.office import Office
from maxkernel.engineers.llm.planner import LlmPlanner
from maxkernel.engineers.llm.profiler import LlmProfiler
from maxkernel.engineers.llm.question import PROMPT_ROOM, Question
from maxkernel.engineers.llm.tester import LlmTester
from maxkernel.engineers.llm.tuner import LlmTuner
from maxkernel.engineers.roles import NoAnswer
from maxkernel.engineers.team import Team
from maxkernel.judge import Judge, Prepared
from maxkernel.knowledge import api_sheet, open_library
from maxkernel.search.decision import MAX_PARTNERS
from maxkernel.tasks import load_task
from maxkernel.types import Candidate, Design, Diagnosis, Evaluation, Failure, Outcome, Plan

T = TypeVar("T")

EXAMPLES = Path(__file__).parent.parent / "examples"
NAMES = ("rmsnorm", "softmax_xent", "gemm_gelu")

INSTRUCTIONS_LIMIT = 9_000
"""Characters of a role's instructions: contract, rules and API sheet included."""
QUESTION_LIMIT = int(1.1 * PROMPT_ROOM)
"""Characters of a question, however long the history."""
CHARACTERS_PER_TOKEN = 3.6
"""Of prompts like these, which are half English and half code."""

LONG_HISTORY = 200
"""Outcomes of a very long run."""
PLAN = Plan("other", "keep rows resident", "fewer bytes", {"by": "model", "change": "fuse " * 60})


DIAGNOSIS = Diagnosis("hbm", "it waits for copies " * 60)


class Size(msgspec.Struct, frozen=True):
    """Characters of one role's prompt."""

    role: str
    instructions: int
    question: int

    @property
    def tokens(self) -> int:
        """About so many."""
        return round((self.instructions + self.question) / CHARACTERS_PER_TOKEN)


class Scales(Desk):
    """A desk that weighs questions instead of asking them."""

    def __init__(self) -> None:
        super().__init__({}, Meter(LlmBudget()), lambda _: None)
        self.sizes: list[Size] = []

    def ask(self, question: Question[T]) -> NoReturn:
        """Notes the question's size; nobody answers."""
        text = question.prompt(PROMPT_ROOM)
        self.sizes.append(Size(question.role, len(question.instructions), len(text)))
        raise NoAnswer("only weighed")


class History:
    """A run's memory of one judged design."""

    def __init__(self, source: str, evaluation: Evaluation) -> None:
        self._design = Design(1, PLAN, source, "plan")
        self._evaluation = evaluation

    def designs(self) -> list[Design]:
        """One."""
        return [self._design]

    def evaluations(self) -> list[tuple[int, Evaluation]]:
        """Its own."""
        return [(1, self._evaluation)]


def weigh(place: Office, evaluation: Evaluation, history: Sequence[Outcome]) -> list[Size]:
    """The prompt sizes of every role for the task and history at hand."""
    scales, prepared = place.desk, place.prepared
    assert isinstance(scales, Scales) and prepared is not None
    info, target = prepared.info, prepared.target
    source = evaluation.candidate.source
    failure = Failure(
        "compile", "vmem", "too much VMEM " * 40, "smaller blocks", "detail " * 400, 9
    )
    for ask in (
        lambda: LlmPlanner(place).plan(info, target, tuple(history)),
        lambda: LlmImplementer(place).implement(info, PLAN, target),
        lambda: LlmDebugger(place).repair(info, PLAN, source, failure, target),
        lambda: LlmMover(place).guided(
            info,
            place.archive.designs()[0],
            evaluation,
            DIAGNOSIS,
            (Design(2, PLAN, source, "plan"),) * MAX_PARTNERS,
            tuple(history),
            target,
        ),
        lambda: LlmTuner(place).extend(info, PLAN, {"block_rows": (256, 512)}, target),
        lambda: LlmTester(place).cases(info, target),
        lambda: LlmExplainer(place).explain(info, evaluation, target),
    ):
        with suppress(NoAnswer):
            ask()
    if evaluation.program is not None:
        LlmProfiler(place).diagnose_source(info, PLAN, source, evaluation.program, target)
    return scales.sizes


def measure(
    judge: Judge, prepared: Prepared, source: str, settings: Settings, outcomes: int
) -> list[Size]:
    """Sizes for one task with `source` as its best kernel and so many outcomes behind it."""
    evaluation = judge.evaluate(prepared, Candidate(source))
    history = [
        Outcome(
            Plan("other", f"idea {n}", "because"), n, 1e-5 if n % 3 else None, 1.1, {}, "x" * 200
        )
        for n in range(outcomes)
    ]
    archive: Archive = History(source, evaluation)
    with closing(open_library(settings)) as library, closing(Fixes()) as fixes:
        place = Office(
            desk=Scales(),
            library=library,
            sheet=api_sheet(settings.python),
            floor=Team.builtin(),
            fixes=fixes,
            toolbox=Toolbox(library),
            archive=archive,
            prepared=prepared,
        )
        return weigh(place, evaluation, history)


def main() -> None:
    """Prints a table per example."""
    from maxkernel.api import open_session

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="v6e")
    target = parser.parse_args().target
    settings = load_settings()
    print(f"limits: instructions {INSTRUCTIONS_LIMIT}, question {QUESTION_LIMIT} characters")
    with open_session(target, settings=settings) as session:
        for name in NAMES:
            prepared = session.judge.prepare(load_task(EXAMPLES / f"{name}.py"))
            floor = Team.builtin()
            plan = floor.planner.plan(prepared.info, prepared.target, ())[0]
            source = floor.implementer.implement(prepared.info, plan, prepared.target)
            for outcomes in (0, LONG_HISTORY):
                print(f"\n{name}, {outcomes} outcomes in its history")
                print(f"{'role':12} {'instructions':>12} {'question':>9} {'tokens':>7}")
                for size in measure(session.judge, prepared, source, settings, outcomes):
                    print(
                        f"{size.role:12} {size.instructions:12} {size.question:9} {size.tokens:7}"
                    )


if __name__ == "__main__":
    main()
