"""Makes an artifact of a candidate: runs in a child of the zygote that holds nothing secret."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax

from maxkernel.targets import TARGETS, Target
from maxkernel.types.artifact import Artifact
from maxkernel.types.evaluation import Failure
from maxkernel.types.messages import CaptureReply, CaptureRequest, FailureReply
from maxkernel.types.task import ArraySpec, Static
from maxkernel.worker.arguments import bind
from maxkernel.worker.candidate import import_candidate, kernel_function
from maxkernel.worker.exporting import evaluate, export_program, on_target
from maxkernel.worker.facts import facts_of
from maxkernel.worker.failures import Refused, candidate_failure, refuse
from maxkernel.worker.jaxprs import PALLAS, rewrite
from maxkernel.worker.specs import spec_of, struct_of, unusable


@dataclass(frozen=True)
class _Traced:
    jaxpr: Any
    outputs: tuple[ArraySpec, ...]
    structs: tuple[jax.ShapeDtypeStruct, ...]


def capture(request: CaptureRequest) -> CaptureReply | FailureReply:
    """Traces the candidate at both sizes and exports both programs; a failure is a reply."""
    target = TARGETS[request.target]
    try:
        module = import_candidate(request.source)
        kernel = kernel_function(module, request.tunables)
        full = _trace(kernel, request.inputs, request.statics, target)
        tpu = _export(full.jaxpr, full, target, "tpu")
        check = _trace(kernel, request.check_inputs, request.check_statics, target)
        cpu = _export(rewrite(check.jaxpr, _interpreted), check, target, "cpu")
        facts = facts_of(full.jaxpr, full.outputs, check.outputs)
        return CaptureReply(Artifact(tpu, cpu, facts))
    except Refused as refused:
        return FailureReply(refused.failure)
    except SystemExit as error:
        return FailureReply(
            Failure(
                "capture",
                "crash",
                f"the candidate called exit ({error.code!r})",
                "a candidate defines kernel and must not end the process",
            )
        )
    except BaseException as error:
        return FailureReply(candidate_failure(error, "capture"))


def _trace(
    kernel: Callable[..., Any],
    inputs: tuple[ArraySpec, ...],
    statics: Mapping[int, Static],
    target: Target,
) -> _Traced:
    structs = tuple(struct_of(spec) for spec in inputs)
    with on_target(target):
        jaxpr, shape = jax.make_jaxpr(bind(kernel, statics), return_shape=True)(*structs)
    leaves = jax.tree.leaves(shape)
    if not leaves:
        refuse("capture", "output_spec", "kernel returns nothing", "return the output arrays")
    for position, leaf in enumerate(leaves):
        if problem := unusable(leaf):
            refuse("capture", "output_spec", f"output {position} of kernel {problem}")
    return _Traced(jaxpr, tuple(spec_of(leaf) for leaf in leaves), structs)


def _export(jaxpr: Any, traced: _Traced, target: Target, platform: str) -> bytes:
    return export_program(evaluate(jaxpr.jaxpr, jaxpr.consts), traced.structs, target, platform)


def _interpreted(equation: Any) -> Any:
    if equation.primitive.name != PALLAS:
        return equation
    return equation.replace(params={**equation.params, "interpret": True})
