"""The judge: capture -> rules -> compile -> check -> time. Engineers' words never enter here.

The capturing process belongs to the candidate. What it says (`Artifact.facts`) only spares
hopeless work; every verdict rests on what workers read from the two exported programs and on
executing them.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from maxkernel.config import Settings
from maxkernel.executor import Executor
from maxkernel.judge import requests
from maxkernel.judge.bound import roofline
from maxkernel.judge.cache import Cache, stage_key
from maxkernel.judge.calibration import calibration_in_force, clock_version
from maxkernel.judge.confirm import CONFIRMATIONS, confirmation, excused, spot_blocks
from maxkernel.judge.desk import Desk, Pending, task_error
from maxkernel.judge.inputs import Inputs, Rota, repeated, secret_seed
from maxkernel.judge.numerics import numerics_failure
from maxkernel.judge.outlines import outlines
from maxkernel.judge.prepared import Prepared
from maxkernel.judge.rules import check_rules, check_share
from maxkernel.judge.source import read_source
from maxkernel.judge.timing import misfit_of, time_of, too_fast, verdict_of
from maxkernel.targets import Target
from maxkernel.types import (
    Artifact,
    Calibration,
    Candidate,
    Confirmation,
    Evaluation,
    Failure,
    Numerics,
    Spot,
    Task,
    TaskInfo,
    Tunable,
    Verdict,
)
from maxkernel.types.messages import (
    CaptureReply,
    CheckReply,
    CompileReply,
    LintReply,
    LintRequest,
    Outline,
    SpotReply,
    TraceReply,
    TraceRequest,
)

OnStage = Callable[[str], None]
"""Called with the name of every stage that starts."""


class Judge:
    """Judges candidates for one target. Thread-safe; holds a cache and the seeds in use."""

    def __init__(
        self, executor: Executor, target: Target, settings: Settings, cache: Cache | None = None
    ) -> None:
        self._desk = Desk(executor, cache)
        self._settings = settings
        self._rota = Rota()
        self.target = target

    @property
    def versions(self) -> dict[str, str]:
        """Of jax, the compiler and a calibrated clock: what times must share to be compared.

        Raises EnvironmentFault without workers, UsageError for a broken calibration file."""
        return self._desk.versions | clock_version(self.calibration)

    @functools.cached_property
    def calibration(self) -> Calibration | None:
        """The user's calibration of the clock. Raises UsageError for a broken file."""
        return calibration_in_force(self._settings, self.target, self._desk.versions)

    def prepare(
        self,
        task: Task,
        on_stage: OnStage = lambda _: None,
        compile_seconds: float | None = None,
    ) -> Prepared:
        """Traces the task and times XLA's program for it, compiled within `compile_seconds`.

        Raises TaskError when the task cannot be judged (TaskTimeout when a stage takes too long),
        EnvironmentFault when the workers fail.
        """
        on_stage("trace")
        info = self._trace(task)
        on_stage("baseline")
        linting = self._lint(task, info)
        compiled = self._compile(task, info.reference_tpu, compile_seconds).result()
        misfit = misfit_of(compiled, self.target)
        if isinstance(compiled, Failure) and not misfit:
            raise task_error(task, compiled, f"XLA cannot compile it for {self.target.name}: ")
        linted = linting.result()
        if isinstance(linted, Failure):
            raise task_error(task, linted)
        bound = roofline(info, self.target)
        program = None if isinstance(compiled, Failure) else compiled
        return Prepared(
            task=task,
            info=info,
            target=self.target,
            baseline=time_of(program, bound) if program else bound.time,
            baseline_program=program.program if program else None,
            bound=bound,
            compiler=program.compiler if program else "",
            lint=linted.result,
            schedule_problem=program.schedule_problem if program else misfit,
            misfit=misfit,
        )

    def evaluate(
        self,
        prepared: Prepared,
        candidate: Candidate,
        on_stage: OnStage = lambda _: None,
        captured: Artifact | Failure | None = None,
        again: Numerics | None = None,
    ) -> Evaluation:
        """Everything there is to find about a candidate. Never raises for a candidate's fault.

        `captured` is what `capture` answered for it, where the caller has asked already. `again`
        repeats an earlier check on its inputs; without one they are secret until it is over.
        """
        evaluation = Evaluation(
            candidate=candidate,
            task=prepared.task.digest,
            target=self.target.name,
            sandbox=self._desk.sandbox,
        )
        on_stage("capture")
        started = time.perf_counter()
        known = (captured, False) if captured is not None else None
        artifact, cached = known or self.capture(prepared, candidate)
        evaluation = _spent(evaluation, "capture", started, cached)
        if isinstance(artifact, Failure):
            return msgspec.structs.replace(evaluation, failure=artifact)
        evaluation = msgspec.structs.replace(
            evaluation, artifact=artifact.digest, facts=artifact.facts
        )
        broken = check_rules(prepared.info, artifact.facts)
        if broken is not None:
            return msgspec.structs.replace(evaluation, failure=broken)
        return self._compile_and_check(prepared, artifact, evaluation, on_stage, again)

    def capture(self, prepared: Prepared, candidate: Candidate) -> tuple[Artifact | Failure, bool]:
        """The artifact of a candidate, and whether it came from the cache."""
        space = read_source(candidate.source)
        if isinstance(space, Failure):
            return space, False
        key = requests.capture_key(prepared, candidate, self._desk.versions)
        request = requests.capture_request(prepared, candidate, self._settings)
        pending = self._desk.ask(request, CaptureReply, "capture", key)
        reply = pending.result()
        return reply if isinstance(reply, Failure) else reply.artifact, pending.cached

    def outline(
        self, prepared: Prepared, source: str, assignments: Sequence[Mapping[str, Tunable]]
    ) -> list[Outline]:
        """What ranking looks at in each assignment of a source's constants; nothing is judged."""
        return outlines(self._desk, self._settings, prepared, source, assignments)

    def confirm(
        self,
        prepared: Prepared,
        candidate: Candidate,
        captured: Artifact | Failure | None = None,
    ) -> Confirmation:
        """Checks a winner once more.

        New secret seeds, among which the distributions of inputs are shared out; every hazard, on
        the first of them; random full-size blocks.
        """
        artifact = captured if captured is not None else self.capture(prepared, candidate)[0]
        if isinstance(artifact, Failure):
            return Confirmation(artifact, 0, 0)
        return confirmation(
            lambda number: self._thorough(prepared, artifact, number),
            lambda blocks: self._spot(prepared, artifact, secret_seed(), blocks),
        )

    def spot_again(
        self, prepared: Prepared, candidate: Candidate, differences: tuple[str, ...], seed: int
    ) -> Spot | Failure:
        """The full-size check of an earlier confirmation once more, on its seed."""
        artifact, _ = self.capture(prepared, candidate)
        if isinstance(artifact, Failure):
            return artifact
        return self._spot(prepared, artifact, seed, spot_blocks(differences))

    def verdict(self, prepared: Prepared, evaluation: Evaluation) -> Verdict:
        """The candidate against XLA. Times of different provenance are never compared."""
        return verdict_of(prepared, evaluation)

    def _compile_and_check(
        self,
        prepared: Prepared,
        artifact: Artifact,
        evaluation: Evaluation,
        on_stage: OnStage,
        again: Numerics | None,
    ) -> Evaluation:
        on_stage("compile")
        started = time.perf_counter()
        chosen = repeated(prepared, again) if again else self._rota.next(prepared)
        checking = self._check(prepared, artifact, chosen)
        compiling = self._compile(prepared.task, artifact.tpu)
        compiled = compiling.result()
        evaluation = _spent(evaluation, "compile", started, compiling.cached)
        if isinstance(compiled, Failure):
            checking.cancel()
            return msgspec.structs.replace(evaluation, failure=compiled)
        evaluation = msgspec.structs.replace(
            evaluation,
            program=compiled.program,
            memory=compiled.memory,
            schedule_problem=compiled.schedule_problem,
        )
        on_stage("check")
        started = time.perf_counter()
        checked = checking.result()
        evaluation = _spent(evaluation, "check", started, False)
        if isinstance(checked, Failure):
            return msgspec.structs.replace(evaluation, failure=checked)
        self._rota.learn(prepared, checked.numerics.trials)
        mine = time_of(compiled, prepared.bound)
        failure = (
            check_rules(prepared.info, checked.facts)
            or numerics_failure(checked.numerics)
            or (None if self._settings.allow_hybrid else check_share(checked.facts, self.target))
            or too_fast(mine, prepared.bound, compiled.program)
        )
        return msgspec.structs.replace(
            evaluation,
            facts=checked.facts,
            numerics=checked.numerics,
            time=mine,
            failure=failure,
        )

    def _trace(self, task: Task) -> TaskInfo:
        limit = self._settings.check_limit_mb << 20
        key = stage_key("trace", task.digest, self.target.name, limit, self._desk.versions)
        request = TraceRequest(task, self.target.name, limit)
        reply = self._desk.ask(request, TraceReply, "trace", key).result()
        if isinstance(reply, Failure):
            raise task_error(task, reply)
        return reply.info

    def _lint(self, task: Task, info: TaskInfo) -> Pending[LintReply]:
        key = stage_key("lint", task.digest, self._desk.versions)
        request = LintRequest(task, info.tolerance, secret_seed())
        return self._desk.ask(request, LintReply, "check", key)

    def _compile(
        self, task: Task, program: bytes, seconds: float | None = None
    ) -> Pending[CompileReply]:
        used = self.calibration
        request = requests.compile_request(task, program, self.target, seconds, used)
        key = requests.compile_key(request, task, self._desk.versions)
        return self._desk.ask(request, CompileReply, "compile", key)

    def _check(
        self, prepared: Prepared, artifact: Artifact, inputs: Inputs, *, thorough: bool = False
    ) -> Pending[CheckReply]:
        """Never cached: its inputs are secret, but for those of a check that is repeated."""
        request = requests.check_request(prepared, artifact, inputs, thorough=thorough)
        return self._desk.ask(request, CheckReply, "check")

    def _thorough(
        self, prepared: Prepared, artifact: Artifact, number: int
    ) -> CheckReply | Failure:
        inputs = self._rota.share(prepared, number, CONFIRMATIONS)
        reply = self._check(prepared, artifact, inputs, thorough=number == 0).result()
        if not isinstance(reply, Failure):
            self._rota.learn(prepared, reply.numerics.trials)
        return reply

    def _spot(
        self, prepared: Prepared, artifact: Artifact, seed: int, blocks: int
    ) -> Spot | Failure:
        request = requests.spot_request(prepared, artifact, blocks, seed, self._settings)
        reply = self._desk.ask(request, SpotReply, "check").result()
        if not isinstance(reply, Failure):
            return reply.spot
        return excused(reply, seed)


def _spent(evaluation: Evaluation, stage: str, started: float, cached: bool) -> Evaluation:
    elapsed = evaluation.elapsed | {stage: time.perf_counter() - started}
    names = (*evaluation.cached, stage) if cached else evaluation.cached
    return msgspec.structs.replace(evaluation, elapsed=elapsed, cached=names)
