"""Answers SpotRequest: some output blocks of the full-size program, against the oracle there.

A kernel may be right at the check size and skip work at the full size. Here the full-size
program itself runs, on fresh full-size inputs, but only the grid steps that a few random output
blocks need; reference and oracle are computed for those blocks (`spot_truth`).
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from maxkernel.types.evaluation import OutputError, Spot
from maxkernel.types.messages import SpotReply, SpotRequest
from maxkernel.types.task import Task
from maxkernel.worker import mosaic, work
from maxkernel.worker.arguments import abstract_arguments
from maxkernel.worker.failures import Refused
from maxkernel.worker.graph import graph_of
from maxkernel.worker.numerics import compare
from maxkernel.worker.programs import require_specs
from maxkernel.worker.reference import ANY_TARGET, f32_products
from maxkernel.worker.spot_truth import FLOPS_LIMIT, FullSize
from maxkernel.worker.task_module import load
from maxkernel.worker.trace import Traced, trace_reference

BYTES_PER_ELEMENT = 8
"""Peak memory of a spot check per element of inputs, outputs and widest intermediate."""

_kept: dict[str, FullSize] = {}


def spot_check_program(request: SpotRequest) -> SpotReply:
    """Checks `request.blocks` random blocks; a task too large for this machine is skipped.

    Raises Refused for hazards and for a full-size program with another signature.
    """
    task = _full_size(request.task)
    traced = task.traced
    reason = _too_large(traced, request.memory_bytes)
    if reason:
        return SpotReply(Spot(skipped=reason, seed=request.seed))
    try:
        program = mosaic.load(request.full)
        require_specs(program, traced.arguments.specs, traced.outputs)
        reaching = mosaic.gather_facts(program).reaching
        if not reaching:
            return SpotReply(
                Spot(skipped="no Pallas kernel reaches the outputs", seed=request.seed)
            )
        last = max(reaching)
        flops = mosaic.sampled_flops(program, last, request.blocks)
        if task.large and flops > FLOPS_LIMIT:
            skipped = _too_much("the program for the blocks", flops)
            return SpotReply(Spot(skipped=skipped, seed=request.seed))
        inputs = task.draw(request.seed).arrays
        found = [
            mosaic.spot_check(
                program,
                [np.asarray(array) for array in inputs],
                kernel=last,
                output=output,
                blocks=request.blocks,
                seed=request.seed,
                options=mosaic.Options(
                    memory_bytes=request.memory_bytes, f32_matmul=f32_products(traced.jaxpr)
                ),
            )
            for output in range(len(program.kernels[last].outputs))
        ]
    except mosaic.Unsupported as error:
        return SpotReply(Spot(skipped=str(error), seed=request.seed))
    except mosaic.Exhausted as error:
        return SpotReply(Spot(skipped=str(error), seed=request.seed))
    except mosaic.MosaicError as error:
        raise Refused(mosaic.failure_of(error)) from error
    return SpotReply(_compare(request, task, inputs, found))


def _full_size(task: Task) -> FullSize:
    """Traces the task at full size, once while no other task is asked for."""
    if task.digest not in _kept:
        _kept.clear()
        module = load(task)
        arguments = abstract_arguments(module, module.full, "inputs")
        traced = trace_reference(module, arguments, ANY_TARGET, [])
        _kept[task.digest] = FullSize(module, traced)
    return _kept[task.digest]


def _compare(
    request: SpotRequest, task: FullSize, inputs: Sequence[Any], found: Sequence[mosaic.Spot]
) -> Spot:
    elements = sum(int(np.count_nonzero(known)) for part in found for known in part.known)
    if not elements:
        return Spot(
            skipped="no output element depends on the sampled blocks alone", seed=request.seed
        )
    outputs: list[OutputError] = []
    for part in found:
        plan = task.plan(part.known)
        if plan.flops > FLOPS_LIMIT:
            return Spot(
                skipped=_too_much("the oracle of the blocks", plan.flops), seed=request.seed
            )
        outputs += [
            compare(truth.candidate, truth.reference, truth.oracle, request.tolerance)
            for truth in task.truths(plan, inputs, part.outputs, part.known)
        ]
    return Spot(
        outputs=tuple(outputs),
        elements=elements,
        blocks=sum(len(part.blocks) for part in found),
        steps=sum(part.steps for part in found),
        total_steps=found[0].total_steps,
        seed=request.seed,
        passed=all(o.excess <= 1.0 and o.nonfinite == 0 for o in outputs),
    )


def _too_much(what: str, flops: float) -> str:
    return f"{what} at full size takes {flops:.2g} operations; the limit here is {FLOPS_LIMIT:.0g}"


def _too_large(traced: Traced, memory_bytes: int) -> str:
    graph = graph_of(traced.jaxpr)
    io = sum(math.prod(graph.values[i].shape) for i in (*graph.inputs, *graph.outputs))
    needed = BYTES_PER_ELEMENT * (io + work.widest(graph))
    if needed > memory_bytes:
        return (
            f"the task at full size needs about {needed / 2**30:.1f} GiB; a worker may use "
            f"{memory_bytes / 2**30:.1f} GiB (worker_memory_mb in the settings)"
        )
    return ""
