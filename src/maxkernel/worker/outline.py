"""Tells what ranking looks at in many assignments of one source: traces only, nothing is lowered.

Runs where a capture does, in a child that holds nothing secret, and costs a tenth of it.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

from maxkernel.targets import TARGETS
from maxkernel.types.candidate import Tunable
from maxkernel.types.messages import FailureReply, Outline, OutlineReply, OutlineRequest
from maxkernel.worker.candidate import import_candidate, kernel_function
from maxkernel.worker.capture import failure_of, refuse_hopeless, trace
from maxkernel.worker.facts import facts_of
from maxkernel.worker.jaxprs import PALLAS, equations

SHARE = 0.25
"""Of a request's seconds after which no further assignment is begun: the last may be a slow one."""


def outline(request: OutlineRequest) -> OutlineReply | FailureReply:
    """Traces the assignments in order, as many as the time allows; a failure is part of a reply."""
    started = time.monotonic()
    try:
        module = import_candidate(request.source)
    except BaseException as error:
        return FailureReply(failure_of(error))
    found: list[Outline] = []
    for assignment in request.assignments:
        found.append(_outline(module, assignment, request))
        if time.monotonic() - started > SHARE * request.seconds:
            break
    return OutlineReply(tuple(found))


def _outline(
    module: ModuleType, assignment: Mapping[str, Tunable], request: OutlineRequest
) -> Outline:
    target = TARGETS[request.target]
    try:
        kernel = kernel_function(module, assignment)
        traced = trace(kernel, request.inputs, request.statics, target)
        facts = facts_of(traced.jaxpr, traced.outputs)
        refuse_hopeless(facts, target)
        return Outline(_digest(traced.jaxpr), facts)
    except BaseException as error:
        return Outline(failure=failure_of(error))


def _digest(jaxpr: Any) -> str:
    """Of the program's text, and of the index maps, which that text leaves out."""
    digest = hashlib.sha256(str(jaxpr).encode())
    for part in _index_maps(jaxpr):
        digest.update(b"\0" + part.encode())
    return digest.hexdigest()


def _index_maps(jaxpr: Any) -> Iterator[str]:
    for equation in equations(jaxpr):
        if equation.primitive.name == PALLAS:
            for block in equation.params["grid_mapping"].block_mappings:
                yield str(getattr(block, "index_map_jaxpr", ""))
