"""Brings candidates before the real judge, with the source gate and past it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from redteam_tasks import TASKS

from maxkernel.config import Settings
from maxkernel.executor import LocalExecutor
from maxkernel.judge import Judge, Prepared, read_source
from maxkernel.judge.requests import capture_request
from maxkernel.types import Artifact, Candidate, Failure
from maxkernel.types.messages import CaptureReply, FailureReply

FOLDER = Path(__file__).with_name("candidates")
_MARK = re.compile(r"^# (attack|honest|task|verdict|bypassed): (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Case:
    """One file of the corpus, as its header describes it."""

    path: Path
    source: str
    task: str
    verdict: str
    """`accepted`, or `refused stage/kind`, from the judge as users have it."""
    bypassed: str
    """The same with the source gate left out; the deeper defences stand alone."""

    @property
    def name(self) -> str:
        """Class and file name."""
        return f"{self.path.parent.name}/{self.path.stem}"

    @property
    def honest(self) -> bool:
        """A legitimate twin, which must pass."""
        return self.path.stem.startswith("honest")


def corpus() -> list[Case]:
    """Every candidate, by class and name."""
    return [_read(path) for path in sorted(FOLDER.glob("*/*.py"))]


def _read(path: Path) -> Case:
    source = path.read_text()
    marks = dict(_MARK.findall(source))
    verdict = marks["verdict"]
    return Case(path, source, marks["task"], verdict, marks.get("bypassed", verdict))


class Court:
    """The judge over warm workers; tasks are prepared once."""

    def __init__(self, executor: LocalExecutor, judge: Judge, settings: Settings) -> None:
        self.executor = executor
        self.judge = judge
        self.settings = settings
        self._prepared: dict[str, Prepared] = {}

    def prepared(self, task: str) -> Prepared:
        """The task, traced and linted."""
        if task not in self._prepared:
            self._prepared[task] = self.judge.prepare(TASKS[task])
        return self._prepared[task]

    def gated(self, case: Case) -> Failure | None:
        """What a user's judge says, winners' confirmation included."""
        space = read_source(case.source)
        return space if isinstance(space, Failure) else self.bypassed(case)

    def bypassed(self, case: Case) -> Failure | None:
        """The verdict where the candidate's Python has already run, whatever it is."""
        prepared = self.prepared(case.task)
        candidate = Candidate(case.source)
        captured = self.capture(prepared, candidate)
        evaluation = self.judge.evaluate(prepared, candidate, captured=captured)
        if evaluation.failure is not None:
            return evaluation.failure
        return self.judge.confirm(prepared, candidate, captured).failure

    def capture(self, prepared: Prepared, candidate: Candidate) -> Artifact | Failure:
        """What the sandboxed capture answers, without the gate before it."""
        reply = self.executor.submit(capture_request(prepared, candidate, self.settings)).result()
        if isinstance(reply, CaptureReply):
            return reply.artifact
        assert isinstance(reply, FailureReply), reply
        return reply.failure


def said(failure: Failure | None) -> str:
    """A verdict in the words of the corpus."""
    return f"refused {failure.stage}/{failure.kind}" if failure else "accepted"
