"""Makes an artifact of a candidate: runs in a child of the zygote that holds nothing secret."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import msgspec

from maxkernel.targets import TARGETS, Target
from maxkernel.types.artifact import Artifact, ArtifactFacts
from maxkernel.types.evaluation import Failure
from maxkernel.types.messages import CaptureReply, CaptureRequest, FailureReply
from maxkernel.types.task import ArraySpec, Static
from maxkernel.worker.arguments import bind
from maxkernel.worker.candidate import import_candidate, kernel_function
from maxkernel.worker.exporting import evaluate, export_program, on_target
from maxkernel.worker.facts import facts_of
from maxkernel.worker.failures import CANDIDATE_FILE, Refused, candidate_failure, refuse
from maxkernel.worker.jaxprs import line_of
from maxkernel.worker.specs import spec_of, struct_of, unusable


@dataclass(frozen=True)
class Traced:
    """A candidate's program at one size."""

    jaxpr: Any
    outputs: tuple[ArraySpec, ...]
    structs: tuple[jax.ShapeDtypeStruct, ...]


def capture(request: CaptureRequest) -> CaptureReply | FailureReply:
    """Traces the candidate at both sizes and exports both programs; a failure is a reply."""
    target = TARGETS[request.target]
    try:
        module = import_candidate(request.source)
        kernel = kernel_function(module, request.tunables)
        full = trace(kernel, request.inputs, request.statics, target)
        facts = facts_of(full.jaxpr, full.outputs)
        refuse_hopeless(facts, target)
        tpu = _export(full.jaxpr, full, target)
        check = trace(kernel, request.check_inputs, request.check_statics, target)
        small = _export(check.jaxpr, check, target)
        facts = msgspec.structs.replace(facts, check_outputs=check.outputs)
        return CaptureReply(Artifact(tpu, small, facts))
    except BaseException as error:
        return FailureReply(failure_of(error))


def failure_of(error: BaseException) -> Failure:
    """What a candidate raised, or why it is refused."""
    if isinstance(error, SystemExit):
        return Failure(
            "capture",
            "crash",
            f"the candidate called exit ({error.code!r})",
            "a candidate defines kernel and must not end the process",
        )
    return candidate_failure(error, "capture")


def trace(
    kernel: Callable[..., Any],
    inputs: tuple[ArraySpec, ...],
    statics: Mapping[int, Static],
    target: Target,
) -> Traced:
    """Traces at these shapes. Raises Refused, and whatever the candidate raises."""
    structs = tuple(struct_of(spec) for spec in inputs)
    with on_target(target):
        jaxpr, shape = jax.make_jaxpr(bind(kernel, statics), return_shape=True)(*structs)
    leaves = jax.tree.leaves(shape)
    if not leaves:
        refuse("capture", "output_spec", "kernel returns nothing", "return the output arrays")
    for position, leaf in enumerate(leaves):
        if problem := unusable(leaf):
            refuse(
                "capture",
                "output_spec",
                f"output {position} of kernel {problem}",
                "return what the reference returns: same number, shapes and dtypes",
            )
    return Traced(jaxpr, tuple(spec_of(leaf) for leaf in leaves), structs)


def refuse_hopeless(facts: ArtifactFacts, target: Target) -> None:
    """Refuses what cannot be exported or compiled, before minutes are spent on it."""
    if facts.primitives.keys() & {"mpmd_map", "core_map"}:
        refuse(
            "capture",
            "unsupported",
            "kernels over a mesh of cores (pl.kernel, pl.core_map) are not judged",
            "write the kernel as a pl.pallas_call with a grid",
        )
    if facts.forbidden:
        refuse(
            "capture",
            "callback",
            f"the program uses {', '.join(facts.forbidden)}",
            "a kernel may not call back to the host, print, or compute on the host",
        )
    for call in facts.pallas_calls:
        needed = call.block_bytes + call.scratch_bytes
        if needed > target.vmem_bytes:
            refuse(
                "capture",
                "vmem",
                f"pallas_call {call.name}: one set of blocks and scratch takes"
                f" {needed / 2**20:.0f} MiB; a {target.name} core has"
                f" {target.vmem_bytes / 2**20:.0f} MiB of VMEM",
                "use smaller blocks: each is held twice to overlap copies with work",
            )


def _export(jaxpr: Any, traced: Traced, target: Target) -> bytes:
    function = evaluate(jaxpr.jaxpr, jaxpr.consts)
    try:
        return export_program(function, traced.structs, target)
    except Exception as error:
        failure = candidate_failure(error, "capture")
        primitive = re.search(r"primitive in Pallas TPU lowering[^:]*: (\w+)", str(error))
        if failure.line is None and primitive:
            line = line_of(jaxpr, primitive[1], CANDIDATE_FILE) or None
            message = f"{CANDIDATE_FILE}:{line}: {failure.message}" if line else failure.message
            failure = msgspec.structs.replace(failure, line=line, message=message)
        raise Refused(failure) from error
