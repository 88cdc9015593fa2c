"""Answers TraceRequest: what a task computes, on what, and its reference exported for the TPU."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import inspect
import warnings
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from maxkernel.targets import TARGETS, Target
from maxkernel.types.graph import Graph
from maxkernel.types.messages import TraceReply, TraceRequest
from maxkernel.types.task import ArraySpec, TaskInfo
from maxkernel.worker import work
from maxkernel.worker.arguments import Arguments, abstract_arguments, bind
from maxkernel.worker.exporting import evaluate, export_program, on_target
from maxkernel.worker.failures import refuse, task_failure
from maxkernel.worker.graph import graph_of
from maxkernel.worker.specs import nbytes, spec_of, unusable
from maxkernel.worker.task_module import TaskModule, load


@dataclass(frozen=True)
class Traced:
    """A reference traced at one size."""

    arguments: Arguments
    jaxpr: Any
    tree: Any
    outputs: tuple[ArraySpec, ...]


def trace_task(request: TraceRequest) -> TraceReply:
    """Imports, traces and exports a task. Raises Refused (kinds `inputs`, `reference`)."""
    module = load(request.task)
    target = TARGETS[request.target]
    notes: list[str] = []
    full = trace_reference(module, abstract_arguments(module, module.full, "inputs"), target, notes)
    graph = graph_of(full.jaxpr)
    check = _check_size(module, full, graph, target, request.check_limit_bytes)
    reads = list(zip(work.reads(graph), full.arguments.specs, strict=True))
    usual = sum(read.usual * nbytes(spec) / spec.size for read, spec in reads)
    least = sum(read.least * nbytes(spec) / spec.size for read, spec in reads)
    written = sum(nbytes(spec) for spec in full.outputs)
    info = TaskInfo(
        task=request.task.digest,
        input_names=_names(module, full.arguments),
        inputs=full.arguments.specs,
        outputs=full.outputs,
        check_inputs=check.arguments.specs,
        check_outputs=check.outputs,
        statics=full.arguments.statics,
        check_statics=check.arguments.statics,
        tolerance=module.tolerance,
        graph=graph,
        flops=work.flops(graph),
        io_bytes=usual + written,
        least_bytes=least + written,
        reference_tpu=_export(module, full, target),
        output_tree=str(full.tree),
        warnings=tuple(dict.fromkeys(notes)),
    )
    return TraceReply(info)


def trace_reference(
    module: TaskModule, arguments: Arguments, target: Target, notes: list[str]
) -> Traced:
    """The reference's jaxpr at the shapes of `arguments`. Raises Refused (kind `reference`).

    Warnings that jax gives while tracing are appended to `notes`.
    """
    function = bind(module.reference, arguments.statics)
    try:
        with on_target(target), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            jaxpr, shape = jax.make_jaxpr(function, return_shape=True)(*arguments.arrays)
    except (Exception, SystemExit) as error:
        raise task_failure(error, module.task, "the reference raised", "reference") from error
    notes += [str(w.message) for w in caught if "dtype" in str(w.message)]
    leaves, tree = jax.tree.flatten(shape)
    _require_flat(module, shape, len(leaves))
    for position, leaf in enumerate(leaves):
        if problem := unusable(leaf):
            refuse("trace", "reference", f"{module.task.name}: output {position} {problem}")
    return Traced(arguments, jaxpr, tree, tuple(spec_of(leaf) for leaf in leaves))


def _require_flat(module: TaskModule, shape: Any, leaves: int) -> None:
    flat = leaves == 1 if not isinstance(shape, tuple | list) else len(shape) == leaves
    if leaves == 0 or not flat or isinstance(shape, dict):
        refuse(
            "trace",
            "reference",
            f"{module.task.name}: the reference returns {jax.tree.structure(shape)}",
            "return one array, or a tuple of arrays",
        )


def _check_size(
    module: TaskModule, full: Traced, graph: Graph, target: Target, limit: int
) -> Traced:
    """The reference at check size: the task's own, or the full size where that is small."""
    checked, name = full, "the full size"
    if module.check is not None:
        arguments = abstract_arguments(module, module.check, "check_inputs")
        _require_alike(module, full.arguments, arguments)
        checked, name = trace_reference(module, arguments, target, []), "check_inputs"
        graph = graph_of(checked.jaxpr)
    needed = working_set(checked, graph)
    if needed > limit:
        refuse(
            "trace",
            "inputs",
            f"{module.task.name}: checking at {name} needs about {needed / 2**30:.1f} GiB,"
            f" over the limit of {limit / 2**30:.1f} GiB",
            "define check_inputs(key) with the same arguments at smaller shapes",
        )
    return checked


def working_set(traced: Traced, graph: Graph) -> float:
    """Bytes that a check holds at once, by estimate.

    Inputs as they are; outputs of candidate and reference, and as float64 the oracle's outputs
    and three temporaries of the widest value.
    """
    inputs = sum(nbytes(spec) for spec in traced.arguments.specs)
    outputs = sum(spec.size * (2 * np.dtype("float32").itemsize + 8) for spec in traced.outputs)
    return 2 * inputs + outputs + 3 * 8 * work.widest(graph)


def _require_alike(module: TaskModule, full: Arguments, check: Arguments) -> None:
    def kinds(arguments: Arguments) -> list[str]:
        return [f"{spec.dtype} of rank {len(spec.shape)}" for spec in arguments.specs]

    if kinds(full) != kinds(check) or set(full.statics) != set(check.statics):
        refuse(
            "trace",
            "inputs",
            f"{module.task.name}: check_inputs gives ({', '.join(kinds(check))}),"
            f" inputs gives ({', '.join(kinds(full))})",
            "both must return the same arguments; only sizes may differ",
        )


def _export(module: TaskModule, traced: Traced, target: Target) -> bytes:
    structs = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in traced.arguments.arrays]
    function = evaluate(traced.jaxpr.jaxpr, traced.jaxpr.consts)
    try:
        return export_program(function, structs, target)
    except Exception as error:
        raise task_failure(
            error, module.task, "the reference cannot be exported for a TPU", "reference"
        ) from error


def _names(module: TaskModule, arguments: Arguments) -> tuple[str, ...]:
    """Names of the array arguments, from the reference's signature where it gives them."""
    names = [
        parameter.name
        for parameter in inspect.signature(module.reference).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    total = len(arguments.arrays) + len(arguments.statics)
    names += [f"x{position}" for position in range(len(names), total)]
    return tuple(names[i] for i in range(total) if i not in arguments.statics)
