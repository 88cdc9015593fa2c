"""The judge: capture -> rules -> compile -> check -> time. Engineers' words never enter here."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable

import msgspec

from maxkernel.config import Settings
from maxkernel.errors import EnvironmentFault, MaxkernelError, TaskError
from maxkernel.executor import Executor
from maxkernel.judge.bound import Roofline, roofline
from maxkernel.judge.cache import Cache, stage_key
from maxkernel.judge.desk import Desk, Pending, secret_seed
from maxkernel.judge.numerics import numerics_failure
from maxkernel.judge.rules import check_rules
from maxkernel.judge.source import read_source
from maxkernel.judge.timing import time_of, too_fast
from maxkernel.targets import Target
from maxkernel.types import (
    Artifact,
    Candidate,
    Evaluation,
    Failure,
    LintResult,
    ProgramTime,
    Task,
    TaskInfo,
    Time,
    Verdict,
)
from maxkernel.types.messages import (
    CaptureReply,
    CaptureRequest,
    CheckReply,
    CheckRequest,
    CompileReply,
    CompileRequest,
    LintReply,
    LintRequest,
    TraceReply,
    TraceRequest,
)

CONFIRMATIONS = 3
"""Fresh seeds on which a winner is checked once more."""

OnStage = Callable[[str], None]
"""Called with the name of every stage that starts."""


class Prepared(msgspec.Struct, frozen=True):
    """A task that is ready to be judged on a target: traced, its baseline compiled and timed."""

    task: Task
    info: TaskInfo
    target: Target
    baseline: Time
    """XLA's compilation of the reference."""
    baseline_program: ProgramTime | None
    bound: Roofline
    compiler: str
    lint: LintResult
    """Which shortcuts pass this task's check."""


class Judge:
    """Judges candidates for one target. Thread-safe; holds no state but its cache."""

    def __init__(
        self, executor: Executor, target: Target, settings: Settings, cache: Cache | None = None
    ) -> None:
        self._desk = Desk(executor, cache)
        self._settings = settings
        self.target = target

    @property
    def versions(self) -> dict[str, str]:
        """Versions of jax and the compiler in the workers. Raises EnvironmentFault without any."""
        return self._desk.versions

    def prepare(self, task: Task, on_stage: OnStage = lambda _: None) -> Prepared:
        """Traces the task and times XLA's program for it.

        Raises TaskError when the task cannot be judged, EnvironmentFault when the workers fail.
        """
        on_stage("trace")
        info = self._trace(task)
        on_stage("baseline")
        linting = self._lint(task, info)
        compiled = self._compile(info.reference_tpu).result()
        if isinstance(compiled, Failure):
            raise TaskError(
                f"{task.name}: XLA cannot compile the reference for {self.target.name}: "
                f"{compiled.message}",
                compiled.advice or compiled.detail,
            )
        linted = linting.result()
        if isinstance(linted, Failure):
            raise _task_error(task, linted)
        bound = roofline(info, self.target)
        return Prepared(
            task=task,
            info=info,
            target=self.target,
            baseline=time_of(compiled, bound),
            baseline_program=compiled.program,
            bound=bound,
            compiler=compiled.compiler,
            lint=linted.result,
        )

    def evaluate(
        self,
        prepared: Prepared,
        candidate: Candidate,
        on_stage: OnStage = lambda _: None,
        captured: Artifact | Failure | None = None,
    ) -> Evaluation:
        """Everything there is to find about a candidate. Never raises for a candidate's fault.

        `captured` is what `capture` answered for it, where the caller has asked already.
        """
        evaluation = Evaluation(
            candidate=candidate,
            task=prepared.task.digest,
            target=self.target.name,
            sandbox=self._desk.sandbox,
        )
        on_stage("capture")
        started = time.perf_counter()
        artifact, cached = (
            (captured, False) if captured is not None else self.capture(prepared, candidate)
        )
        evaluation = _spent(evaluation, "capture", started, cached)
        if isinstance(artifact, Failure):
            return msgspec.structs.replace(evaluation, failure=artifact)
        evaluation = msgspec.structs.replace(
            evaluation, artifact=artifact.digest, facts=artifact.facts
        )
        broken = check_rules(prepared.info, artifact.facts)
        if broken is not None:
            return msgspec.structs.replace(evaluation, failure=broken)
        return self._compile_and_check(prepared, artifact, evaluation, on_stage)

    def capture(self, prepared: Prepared, candidate: Candidate) -> tuple[Artifact | Failure, bool]:
        """The artifact of a candidate, and whether it came from the cache."""
        space = read_source(candidate.source)
        if isinstance(space, Failure):
            return space, False
        info = prepared.info
        key = stage_key(
            "capture", candidate.digest, prepared.task.digest, self.target.name, self.versions
        )
        request = CaptureRequest(
            source=candidate.source,
            tunables=candidate.tunables,
            target=self.target.name,
            inputs=info.inputs,
            check_inputs=info.check_inputs,
            statics=info.statics,
            check_statics=info.check_statics,
            seconds=self._settings.capture_seconds,
            memory_bytes=self._settings.capture_memory_mb << 20,
        )
        pending = self._desk.ask(request, CaptureReply, "capture", key)
        reply = pending.result()
        return reply if isinstance(reply, Failure) else reply.artifact, pending.cached

    def confirm(self, prepared: Prepared, candidate: Candidate) -> Failure | None:
        """Checks a winner again on inputs from new secret seeds; the first failure, or None."""
        artifact, _ = self.capture(prepared, candidate)
        if isinstance(artifact, Failure):
            return artifact
        for _ in range(CONFIRMATIONS):
            reply = self._check(prepared, artifact).result()
            if isinstance(reply, Failure):
                return reply
            failure = numerics_failure(reply.numerics)
            if failure is not None:
                return failure
        return None

    def verdict(self, prepared: Prepared, evaluation: Evaluation) -> Verdict:
        """The candidate against XLA. Times of different provenance are never compared."""
        baseline, mine = prepared.baseline, evaluation.time
        comparable = (
            evaluation.accepted and mine is not None and mine.provenance == baseline.provenance
        )
        speedup = baseline.seconds / mine.seconds if comparable and mine else None
        error = max(baseline.expected_error or 0.0, (mine.expected_error or 0.0) if mine else 0.0)
        claims = baseline.provenance != "bound"
        return Verdict(
            evaluation=evaluation,
            baseline=baseline,
            bound=prepared.bound.time,
            speedup=speedup,
            faster=claims and speedup is not None and speedup > 1.0 + error,
        )

    def _compile_and_check(
        self, prepared: Prepared, artifact: Artifact, evaluation: Evaluation, on_stage: OnStage
    ) -> Evaluation:
        on_stage("compile")
        started = time.perf_counter()
        checking = self._check(prepared, artifact)
        compiling = self._compile(artifact.tpu)
        compiled = compiling.result()
        evaluation = _spent(evaluation, "compile", started, compiling.cached)
        if isinstance(compiled, Failure):
            checking.cancel()
            return msgspec.structs.replace(evaluation, failure=compiled)
        evaluation = msgspec.structs.replace(
            evaluation, program=compiled.program, memory=compiled.memory
        )
        on_stage("check")
        started = time.perf_counter()
        checked = checking.result()
        evaluation = _spent(evaluation, "check", started, False)
        if isinstance(checked, Failure):
            return msgspec.structs.replace(evaluation, failure=checked)
        mine = time_of(compiled, prepared.bound)
        failure = numerics_failure(checked.numerics) or too_fast(mine, prepared.bound)
        return msgspec.structs.replace(
            evaluation, numerics=checked.numerics, time=mine, failure=failure
        )

    def _trace(self, task: Task) -> TaskInfo:
        limit = self._settings.check_limit_mb << 20
        key = stage_key("trace", task.digest, self.target.name, limit, self.versions)
        request = TraceRequest(task, self.target.name, limit)
        reply = self._desk.ask(request, TraceReply, "trace", key).result()
        if isinstance(reply, Failure):
            raise _task_error(task, reply)
        return reply.info

    def _lint(self, task: Task, info: TaskInfo) -> Pending[LintReply]:
        key = stage_key("lint", task.digest, self.versions)
        request = LintRequest(task, info.tolerance, secret_seed())
        return self._desk.ask(request, LintReply, "check", key)

    def _compile(self, program: bytes) -> Pending[CompileReply]:
        digest = hashlib.sha256(program).hexdigest()
        key = stage_key("compile", digest, self.target.name, self.versions)
        request = CompileRequest(program, self.target.name)
        return self._desk.ask(request, CompileReply, "compile", key)

    def _check(self, prepared: Prepared, artifact: Artifact) -> Pending[CheckReply]:
        """Never cached: every check draws its own secret seed."""
        request = CheckRequest(prepared.task, artifact.cpu, secret_seed(), prepared.info.tolerance)
        return self._desk.ask(request, CheckReply, "check")


def _spent(evaluation: Evaluation, stage: str, started: float, cached: bool) -> Evaluation:
    elapsed = evaluation.elapsed | {stage: time.perf_counter() - started}
    names = (*evaluation.cached, stage) if cached else evaluation.cached
    return msgspec.structs.replace(evaluation, elapsed=elapsed, cached=names)


def _task_error(task: Task, failure: Failure) -> MaxkernelError:
    text = f"{task.origin or task.name}: {failure.message}"
    if failure.kind == "environment":
        return EnvironmentFault(text, failure.advice)
    return TaskError(text, failure.advice or failure.detail)
