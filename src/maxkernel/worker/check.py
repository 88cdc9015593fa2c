"""Answers CheckRequest and OracleRequest: executes a candidate's program beside the oracle.

The reference and the oracle are compiled once per task, and the inputs of the last seed are
kept with what both gave, so that one more candidate costs only its own program.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.export
import jax.numpy as jnp
import msgspec
import numpy as np

from maxkernel.targets import TARGETS
from maxkernel.types.artifact import ArtifactFacts
from maxkernel.types.evaluation import Numerics
from maxkernel.types.messages import Array, CheckReply, CheckRequest, OracleReply, OracleRequest
from maxkernel.types.task import Task
from maxkernel.worker import mosaic, work
from maxkernel.worker.arguments import Arguments, abstract_arguments, drawing
from maxkernel.worker.exporting import compile_options, evaluate
from maxkernel.worker.failures import refuse, task_failure
from maxkernel.worker.ghost import Recording, mattering, record
from maxkernel.worker.graph import graph_of
from maxkernel.worker.hazards import hazard_runs
from maxkernel.worker.jaxprs import equations
from maxkernel.worker.numerics import compare
from maxkernel.worker.oracle import promoted_function
from maxkernel.worker.programs import Pair, forget, load_pair, require_specs
from maxkernel.worker.shares import with_shares
from maxkernel.worker.specs import spec_of
from maxkernel.worker.task_module import TaskModule, load
from maxkernel.worker.trace import Traced, trace_reference

FLOAT64_FLOPS_LIMIT = 4e10
"""Operations of products at check size above which the oracle works in float32.

A laptop core does about 1e10 float64 operations a second in XLA's CPU products.
"""

Precision = Literal["float64", "float32"]


@dataclass(frozen=True)
class Prepared:
    """A task ready to be checked: compiled reference and oracle."""

    module: TaskModule
    traced: Traced
    draw: Callable[[int], Arguments]
    reference: Any
    oracle: Any
    precision: Precision
    f32_matmul: Literal["exact", "bf16"]
    """How a kernel's f32 products at default precision are executed: as the MXU does, in bf16,
    unless the reference asks for no more itself."""


@dataclass(frozen=True)
class Sample:
    """Inputs of one seed, with what reference and oracle make of them."""

    seed: int
    inputs: tuple[Any, ...]
    originals: tuple[np.ndarray[Any, Any], ...]
    reference: tuple[np.ndarray[Any, Any], ...]
    oracle: tuple[np.ndarray[Any, Any], ...]


ANY_TARGET = TARGETS["v6e"]
"""What the reference is traced for here: it computes the same on every target."""

_prepared: dict[str, Prepared] = {}
_sample: dict[str, Sample] = {}


def check_program(request: CheckRequest) -> CheckReply:
    """Executes the check-size program on inputs from `request.seed`, beside the oracle.

    Raises Refused: kinds `inputs`, `reference`, `output_spec`, `hazard`, `unsupported`,
    `forbidden`, `timeout`.
    """
    prepared = prepare(request.task)
    sample = draw(prepared, request.seed)
    pair = load_pair(request.full, request.check)
    require_specs(pair.check, prepared.traced.arguments.specs, prepared.traced.outputs)
    options = mosaic.Options(f32_matmul=prepared.f32_matmul)
    recording = record(pair.check, sample.originals, options)
    results = recording.outputs
    outputs = tuple(
        compare(*parts, request.tolerance)
        for parts in zip(results, sample.reference, sample.oracle, strict=True)
    )
    passed = all(output.excess <= 1.0 and output.nonfinite == 0 for output in outputs)
    runs = 0
    if request.thorough and passed:
        runs = hazard_runs(pair.check, sample.originals, results, request.seed, options)
    numerics = Numerics(outputs, request.seed, prepared.precision, passed, pair.differences)
    return CheckReply(numerics, _facts(pair, sample, recording), runs)


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
    sample = draw(prepared, request.seed)
    return OracleReply(
        inputs=_pack(sample.originals),
        reference=_pack(sample.reference),
        oracle=_pack(sample.oracle),
        precision=prepared.precision,
    )


def warm_up() -> None:
    """Starts the CPU backend and imports what a first exported program needs."""
    exported = jax.export.export(jax.jit(jnp.sin), platforms=["cpu"])(jnp.zeros(()))
    jax.block_until_ready(_build(exported.call, [jnp.zeros(())])(jnp.zeros(())))


def prepare(task: Task) -> Prepared:
    """Traces and compiles reference and oracle at check size, once per task."""
    found = _prepared.get(task.digest)
    if found is None:
        _prepared.clear()
        _sample.clear()
        forget()
        module = load(task)
        maker, name = (module.check, "check_inputs") if module.check else (module.full, "inputs")
        arguments = abstract_arguments(module, maker, name)
        traced = trace_reference(module, arguments, ANY_TARGET, [])
        found = _compile(module, traced, drawing(module, maker, name))
        _prepared[task.digest] = found
    return found


def _compile(module: TaskModule, traced: Traced, draws: Callable[[int], Arguments]) -> Prepared:
    inputs = traced.arguments.arrays
    plain = evaluate(traced.jaxpr.jaxpr, traced.jaxpr.consts)
    products = f32_products(traced.jaxpr)
    try:
        reference = _build(plain, inputs)
    except Exception as error:
        raise task_failure(
            error, module.task, "the reference cannot be compiled for the CPU", "reference"
        ) from error
    if work.flops(graph_of(traced.jaxpr)) <= FLOAT64_FLOPS_LIMIT:
        try:
            with jax.enable_x64(True):
                oracle = _build(promoted_function(traced.jaxpr, "float64"), inputs)
            return Prepared(module, traced, draws, reference, oracle, "float64", products)
        except Exception as error:
            sys.stderr.write(f"no float64 oracle: {type(error).__name__}: {error}\n")
    try:
        oracle = _build(promoted_function(traced.jaxpr, "float32"), inputs)
    except Exception:
        with jax.default_matmul_precision("highest"):
            oracle = _build(plain, inputs)
    return Prepared(module, traced, draws, reference, oracle, "float32", products)


def f32_products(jaxpr: Any) -> Literal["exact", "bf16"]:
    """How exact a kernel's f32 products at default precision need to be executed."""
    for equation in equations(jaxpr):
        if equation.primitive.name not in ("dot_general", "conv_general_dilated"):
            continue
        wide = any(str(v.aval.dtype) == "float32" for v in equation.invars)
        if wide and "HIGH" not in str(equation.params.get("precision")):
            return "exact"
    return "bf16"


def draw(prepared: Prepared, seed: int) -> Sample:
    """Inputs from `seed` with reference and oracle; the last seed is kept."""
    digest = prepared.module.task.digest
    found = _sample.get(digest)
    if found is not None and found.seed == seed:
        return found
    _sample.clear()
    module = prepared.module
    arguments = prepared.draw(seed)
    _require_same(prepared, arguments)
    try:
        reference = _host(prepared.reference(*arguments.arrays))
        with jax.enable_x64(prepared.precision == "float64"):
            oracle = _host(prepared.oracle(*arguments.arrays))
    except Exception as error:
        raise task_failure(error, module.task, "the reference failed", "reference") from error
    originals = tuple(np.array(array) for array in arguments.arrays)
    found = Sample(seed, arguments.arrays, originals, reference, oracle)
    _sample[digest] = found
    return found


def _require_same(prepared: Prepared, arguments: Arguments) -> None:
    expected = prepared.traced.arguments
    if arguments.specs != expected.specs or arguments.statics != expected.statics:
        refuse(
            "check",
            "inputs",
            f"{prepared.module.task.name}: another seed gives inputs of other shapes or scalars",
            "only the values may depend on the key",
        )


def _build(function: Callable[..., Any], inputs: Sequence[Any]) -> Any:
    """The function compiled for the CPU at the shapes of `inputs`."""
    structs = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in inputs]
    return jax.jit(function).lower(*structs).compile(compile_options())


def _host(results: Any) -> tuple[np.ndarray[Any, Any], ...]:
    return tuple(np.asarray(array) for array in jax.tree.leaves(results))


def _pack(arrays: Sequence[np.ndarray[Any, Any]]) -> tuple[Array, ...]:
    return tuple(Array(spec_of(array), array.tobytes()) for array in arrays)
