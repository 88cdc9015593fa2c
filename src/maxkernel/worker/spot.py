"""Answers SpotRequest: some output blocks of the full-size program, against the oracle there.

A kernel may be right at the check size and skip work at the full size. Here the full-size
program itself runs, on fresh full-size inputs, but only the grid steps that a few random output
blocks need. The oracle works in float32 with highest precision: float64 would double the memory.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from maxkernel.types.evaluation import OutputError, Spot
from maxkernel.types.messages import SpotReply, SpotRequest
from maxkernel.worker import mosaic, work
from maxkernel.worker.arguments import abstract_arguments, concrete_arguments
from maxkernel.worker.check import ANY_TARGET
from maxkernel.worker.exporting import compile_options, evaluate
from maxkernel.worker.failures import Refused
from maxkernel.worker.graph import graph_of
from maxkernel.worker.numerics import compare
from maxkernel.worker.oracle import promoted_function
from maxkernel.worker.programs import require_specs
from maxkernel.worker.task_module import load
from maxkernel.worker.trace import Traced, trace_reference

FLOPS_LIMIT = 1e12
"""Operations of products at full size above which the oracle takes minutes on a laptop."""

BYTES_PER_ELEMENT = 8
"""Peak memory of a spot check per element of inputs, outputs and widest intermediate."""

Array = np.ndarray[Any, Any]


def spot_check_program(request: SpotRequest) -> SpotReply:
    """Checks `request.blocks` random blocks; a task too large for this machine is skipped.

    Raises Refused for hazards and for a full-size program with another signature.
    """
    module = load(request.task)
    traced = trace_reference(
        module, abstract_arguments(module, module.full, "inputs"), ANY_TARGET, []
    )
    reason = _too_large(traced, request.memory_bytes)
    if reason:
        return SpotReply(Spot(skipped=reason))
    try:
        program = mosaic.load(request.full)
        require_specs(program, traced.arguments.specs, traced.outputs)
        reaching = mosaic.gather_facts(program).reaching
        if not reaching:
            return SpotReply(Spot(skipped="no Pallas kernel reaches the outputs"))
        inputs = concrete_arguments(module, module.full, "inputs", request.seed).arrays
        found = mosaic.spot_check(
            program,
            [np.asarray(array) for array in inputs],
            kernel=max(reaching),
            blocks=request.blocks,
            seed=request.seed,
            options=mosaic.Options(memory_bytes=request.memory_bytes),
        )
    except mosaic.Unsupported as error:
        return SpotReply(Spot(skipped=str(error)))
    except mosaic.Exhausted as error:
        return SpotReply(Spot(skipped=str(error)))
    except mosaic.MosaicError as error:
        raise Refused(mosaic.failure_of(error)) from error
    return SpotReply(_compare(request, traced, inputs, found))


def _compare(
    request: SpotRequest, traced: Traced, inputs: Sequence[Any], found: mosaic.Spot
) -> Spot:
    elements = sum(int(np.count_nonzero(known)) for known in found.known)
    if not elements:
        return Spot(skipped="no output element depends on the sampled blocks alone")
    plain = evaluate(traced.jaxpr.jaxpr, traced.jaxpr.consts)
    outputs: list[OutputError] = []
    reference = _masked(_run(plain, inputs), found.known)
    oracle = _masked(_run(promoted_function(traced.jaxpr, "float32"), inputs), found.known)
    mine = _masked(found.outputs, found.known)
    for candidate, theirs, truth in zip(mine, reference, oracle, strict=True):
        if candidate.size:
            outputs.append(compare(candidate, theirs, truth, request.tolerance))
    return Spot(
        outputs=tuple(outputs),
        elements=elements,
        blocks=len(found.blocks),
        steps=found.steps,
        total_steps=found.total_steps,
        passed=all(o.excess <= 1.0 and o.nonfinite == 0 for o in outputs),
    )


def _too_large(traced: Traced, memory_bytes: int) -> str:
    graph = graph_of(traced.jaxpr)
    operations = work.flops(graph)
    if operations > FLOPS_LIMIT:
        return (
            f"the oracle at full size takes {operations:.2g} operations; "
            f"the limit here is {FLOPS_LIMIT:.0g}"
        )
    io = sum(math.prod(graph.values[i].shape) for i in (*graph.inputs, *graph.outputs))
    needed = BYTES_PER_ELEMENT * (io + work.widest(graph))
    if needed > memory_bytes:
        return (
            f"the task at full size needs about {needed / 2**30:.1f} GiB; a worker may use "
            f"{memory_bytes / 2**30:.1f} GiB (worker_memory_mb in the settings)"
        )
    return ""


def _run(function: Any, inputs: Sequence[Any]) -> list[Array]:
    structs = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in inputs]
    compiled = jax.jit(function).lower(*structs).compile(compile_options())
    return [np.asarray(array) for array in jax.tree.leaves(compiled(*inputs))]


def _masked(arrays: Sequence[Array], known: Sequence[Array]) -> list[Array]:
    return [array[mask] for array, mask in zip(arrays, known, strict=True)]
