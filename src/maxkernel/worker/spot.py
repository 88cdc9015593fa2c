"""Answers SpotRequest: some output blocks of the full-size program, against the oracle there.

A kernel may be right at the check size and skip work at the full size. Here the full-size
program itself runs, on fresh full-size inputs, but only the grid steps that a few random output
blocks need. The oracle works in float32 with highest precision: float64 would double the memory.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from maxkernel.types.evaluation import Spot
from maxkernel.types.messages import SpotReply, SpotRequest
from maxkernel.types.task import Task
from maxkernel.worker import mosaic, work
from maxkernel.worker.arguments import Arguments, abstract_arguments, drawing
from maxkernel.worker.exporting import compile_options, evaluate
from maxkernel.worker.failures import Refused
from maxkernel.worker.graph import graph_of
from maxkernel.worker.numerics import compare
from maxkernel.worker.oracle import promoted_function
from maxkernel.worker.programs import require_specs
from maxkernel.worker.reference import ANY_TARGET, f32_products
from maxkernel.worker.task_module import TaskModule, load
from maxkernel.worker.trace import Traced, trace_reference

FLOPS_LIMIT = 1e12
"""Operations of products at full size above which the oracle takes minutes on a laptop."""

BYTES_PER_ELEMENT = 8
"""Peak memory of a spot check per element of inputs, outputs and widest intermediate."""

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class _FullSize:
    """A task at full size; what is compiled for it is compiled when it is first used."""

    module: TaskModule
    traced: Traced

    @functools.cached_property
    def draw(self) -> Callable[[int], Arguments]:
        """From a seed to inputs."""
        return drawing(self.module, self.module.full, "inputs", often=True)

    @functools.cached_property
    def reference(self) -> Any:
        """Of the inputs, as the task has it."""
        return self._build(evaluate(self.traced.jaxpr.jaxpr, self.traced.jaxpr.consts))

    @functools.cached_property
    def oracle(self) -> Any:
        """The same in float32 with highest precision."""
        return self._build(promoted_function(self.traced.jaxpr, "float32"))

    def _build(self, function: Callable[..., Any]) -> Any:
        inputs = self.traced.arguments.arrays
        structs = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in inputs]
        return jax.jit(function).lower(*structs).compile(compile_options())


_kept: dict[str, _FullSize] = {}


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
        inputs = task.draw(request.seed).arrays
        last = max(reaching)
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


def _full_size(task: Task) -> _FullSize:
    """Traces the task at full size, once while no other task is asked for."""
    if task.digest not in _kept:
        _kept.clear()
        module = load(task)
        arguments = abstract_arguments(module, module.full, "inputs")
        traced = trace_reference(module, arguments, ANY_TARGET, [])
        _kept[task.digest] = _FullSize(module, traced)
    return _kept[task.digest]


def _compare(
    request: SpotRequest, task: _FullSize, inputs: Sequence[Any], found: Sequence[mosaic.Spot]
) -> Spot:
    elements = sum(int(np.count_nonzero(known)) for part in found for known in part.known)
    if not elements:
        return Spot(
            skipped="no output element depends on the sampled blocks alone", seed=request.seed
        )
    reference = _run(task.reference, inputs)
    oracle = _run(task.oracle, inputs)
    outputs = [
        compare(_at(known, mine), _at(known, theirs), _at(known, truth), request.tolerance)
        for part in found
        for mine, known, theirs, truth in zip(
            part.outputs, part.known, reference, oracle, strict=True
        )
        if known.any()
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


def _at(known: Array, array: Array) -> Array:
    """The elements that are known, flat."""
    return array.reshape(-1) if known.all() else array[known]


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


def _run(compiled: Any, inputs: Sequence[Any]) -> list[Array]:
    return [np.asarray(array) for array in jax.tree.leaves(compiled(*inputs))]
