"""Answers CheckRequest and OracleRequest: executes a candidate's program beside the oracle.

The reference and the oracle are compiled once per task, and the inputs of recent seeds are kept
with what both gave, so that one more candidate costs only its own program.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import msgspec
import numpy as np

from maxkernel.types.artifact import ArtifactFacts
from maxkernel.types.evaluation import Distribution, Numerics, OutputError, Trial
from maxkernel.types.messages import Array, CheckReply, CheckRequest, OracleReply, OracleRequest
from maxkernel.types.search import InputCase
from maxkernel.types.task import Tolerance
from maxkernel.worker import mosaic, samples
from maxkernel.worker.exporting import compile_options
from maxkernel.worker.failures import Refused
from maxkernel.worker.ghost import Recording, mattering, record
from maxkernel.worker.hazards import hazard_runs
from maxkernel.worker.numerics import compare_with
from maxkernel.worker.programs import Outputs, Pair, execute, load_pair, require_specs
from maxkernel.worker.reference import Prepared, prepare
from maxkernel.worker.samples import Sample, Skipped
from maxkernel.worker.shares import with_shares
from maxkernel.worker.specs import spec_of

_TOO_MUCH = frozenset({"timeout", "memory"})
"""Failures on further inputs that say more about this machine than about the kernel."""


def check_program(request: CheckRequest) -> CheckReply:
    """Executes the check-size program on inputs from `request.seed`, beside the oracle.

    Raises Refused: kinds `inputs`, `reference`, `output_spec`, `hazard`, `unsupported`,
    `forbidden`, `timeout`.
    """
    prepared = prepare(request.task)
    sample = samples.draw(prepared, request.seed)
    pair = load_pair(request.full, request.check)
    require_specs(pair.check, prepared.traced.arguments.specs, prepared.traced.outputs)
    options = mosaic.Options(f32_matmul=prepared.f32_matmul)
    recording = record(pair.check, sample.originals, options)
    results = recording.outputs
    outputs = _compared(results, sample, request.tolerance)
    passed = _right(outputs)
    runs, trials = 0, tuple[Trial, ...]()
    if passed:
        trials = _trials(prepared, pair.check, request, options)
    if request.thorough and passed:
        runs = hazard_runs(pair.check, sample.originals, results, request.seed, options)
    numerics = Numerics(
        outputs=outputs,
        seed=request.seed,
        oracle=prepared.precision,
        passed=passed and all(trial.passed or trial.skipped for trial in trials),
        differences=pair.differences,
        trials=trials,
    )
    return CheckReply(numerics, _facts(pair, sample, recording), runs)


def _trials(
    prepared: Prepared, program: mosaic.Program, request: CheckRequest, options: mosaic.Options
) -> tuple[Trial, ...]:
    """The check on further inputs, up to the first that it fails on."""
    wanted: list[Distribution | InputCase] = [*request.distributions, *request.cases]
    found: list[Trial] = []
    for one in wanted:
        name = one if isinstance(one, str) else f"case: {one.name}"
        sample = samples.further(prepared, request.seed, one)
        found.append(_trial(name, sample, program, request, options))
        if not (found[-1].passed or found[-1].skipped):
            break
    return tuple(found)


def _trial(
    name: str,
    sample: Sample | Skipped,
    program: mosaic.Program,
    request: CheckRequest,
    options: mosaic.Options,
) -> Trial:
    if isinstance(sample, Skipped):
        return Trial(name, request.seed, skipped=sample.why)
    try:
        results = execute(program, sample.originals, options)
    except Refused as refused:
        failure = refused.failure
        if failure.kind in _TOO_MUCH:
            return Trial(name, request.seed, skipped=failure.message)
        message = f"{failure.message} (on inputs `{name}`: {sample.how or 'made for it'})"
        raise Refused(msgspec.structs.replace(failure, message=message)) from refused
    outputs = _compared(results, sample, request.tolerance)
    return Trial(name, request.seed, _right(outputs), outputs, sample.how)


def _compared(results: Outputs, sample: Sample, tolerance: Tolerance) -> tuple[OutputError, ...]:
    pairs = zip(results, sample.truths(tolerance), strict=True)
    return tuple(compare_with(mine, truth) for mine, truth in pairs)


def _right(outputs: Sequence[OutputError]) -> bool:
    return all(output.excess <= 1.0 and output.nonfinite == 0 for output in outputs)


def _facts(pair: Pair, sample: Sample, recording: Recording) -> ArtifactFacts:
    """The artifact's facts, with what the execution told about which kernels do work."""
    if len(pair.facts.pallas_calls) != len(pair.check.kernels):
        return pair.facts
    matter = mattering(pair.check, sample.originals, recording)
    copies = recording.copying
    calls = tuple(
        msgspec.structs.replace(
            call, reaches_output=call.reaches_output and k in matter, copies=k in copies
        )
        for k, call in enumerate(pair.facts.pallas_calls)
    )
    facts = msgspec.structs.replace(pair.facts, pallas_calls=calls)
    return with_shares(facts, pair.shares, matter - copies)


def oracle_values(request: OracleRequest) -> OracleReply:
    """Inputs, reference and oracle of one seed. Raises Refused as `check_program` does."""
    prepared = prepare(request.task)
    sample = samples.draw(prepared, request.seed)
    return OracleReply(
        inputs=_pack(sample.originals),
        reference=_pack(sample.reference),
        oracle=_pack(sample.oracle),
        precision=prepared.precision,
    )


def warm_up() -> None:
    """Starts the CPU backend and imports what a first exported program needs."""
    exported = jax.export.export(jax.jit(jnp.sin), platforms=["cpu"])(jnp.zeros(()))
    compiled = jax.jit(exported.call).lower(jnp.zeros(())).compile(compile_options())
    jax.block_until_ready(compiled(jnp.zeros(())))


def _pack(arrays: Sequence[np.ndarray[Any, Any]]) -> tuple[Array, ...]:
    return tuple(Array(spec_of(array), array.tobytes()) for array in arrays)
