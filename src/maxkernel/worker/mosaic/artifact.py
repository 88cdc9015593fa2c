"""Reads a serialised `jax.export` artifact for the TPU into a `Program`."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax.export
import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs._stablehlo import deserialize_portable_artifact

from maxkernel.types import ArraySpec
from maxkernel.worker.mosaic.dtypes import tensor_dtype
from maxkernel.worker.mosaic.errors import BadArtifact, MosaicError, refusing
from maxkernel.worker.mosaic.launch import Executable, compile_kernel
from maxkernel.worker.mosaic.model import Kernel, Options
from maxkernel.worker.mosaic.payload import read_kernel
from maxkernel.worker.mosaic.read import Value, new_context, read_type

TARGET = "tpu_custom_call"
ARTIFACT_LIMIT = 256 << 20
"""Largest artifact, bytes."""


@dataclass(slots=True, eq=False)
class Program:
    """A deserialised artifact: its outer StableHLO module and the kernels inside.

    `calls` maps the first result of every `tpu_custom_call` to its index in `kernels`.
    """

    module: ir.Module
    context: ir.Context
    kernels: tuple[Kernel, ...]
    calls: dict[Value, int]
    inputs: tuple[ArraySpec, ...]
    outputs: tuple[ArraySpec, ...]
    kept: tuple[int, ...]
    """Which inputs the module's main function takes."""
    functions: dict[str, ir.Operation]
    running: frozenset[str]
    """Functions that may run a kernel."""
    executables: dict[tuple[int, Options], Executable] = field(
        default_factory=dict[tuple[int, Options], Executable]
    )
    plans: dict[Any, Any] = field(default_factory=dict[Any, Any])

    def executable(self, index: int, options: Options) -> Executable:
        """The compiled kernel of this index; compiled once per options."""
        key = (index, options)
        if key not in self.executables:
            self.executables[key] = compile_kernel(self.kernels[index], options)
        return self.executables[key]


def walk_operations(op: ir.Operation) -> Iterator[ir.Operation]:
    """Every operation inside `op`, itself not included, outer before inner."""
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield inner.operation
                yield from walk_operations(inner.operation)


def target_of(op: ir.Operation) -> str:
    """The target of a custom call; empty for any other operation."""
    if op.name != "stablehlo.custom_call":
        return ""
    return ir.StringAttr(op.attributes["call_target_name"]).value


def _spec(aval: Any) -> ArraySpec:
    try:
        return ArraySpec(tuple(int(n) for n in aval.shape), aval.dtype.name)
    except Exception as error:
        raise BadArtifact(f"an argument of unknown shape: {aval}") from error


def load(artifact: bytes) -> Program:
    """Deserialise an artifact and decode every kernel in it.

    Raises `BadArtifact` when the bytes are not an artifact for one TPU device without effects, and
    `Unsupported` when a kernel has a form that is not understood.
    """
    if len(artifact) > ARTIFACT_LIMIT:
        raise BadArtifact(f"an artifact of more than {ARTIFACT_LIMIT >> 20} MiB")
    with refusing("reading the artifact"):
        return _load(artifact)


def _load(artifact: bytes) -> Program:
    exported = jax.export.deserialize(bytearray(artifact))
    context = new_context()
    module = deserialize_portable_artifact(context, exported.mlir_module_serialized)
    module.operation.verify()
    if tuple(exported.platforms) != ("tpu",) or exported.nr_devices != 1:
        raise BadArtifact(f"an artifact for {exported.platforms} x {exported.nr_devices}")
    if exported.ordered_effects or exported.unordered_effects:
        raise BadArtifact("an artifact with side effects")
    functions = _functions(module)
    kernels: list[Kernel] = []
    calls: dict[Value, int] = {}
    for op in walk_operations(module.operation):
        if target_of(op) == TARGET:
            calls[op.results[0]] = len(kernels)
            kernels.append(_kernel(op, context))
    inputs = tuple(_spec(a) for a in exported.in_avals)
    outputs = tuple(_spec(a) for a in exported.out_avals)
    kept = tuple(exported.module_kept_var_idx)
    if "main" not in functions or any(not 0 <= k < len(inputs) for k in kept):
        raise BadArtifact("an artifact whose main function does not fit its signature")
    main = functions["main"].regions[0].blocks[0]
    _agree([a.type for a in main.arguments], [inputs[k] for k in kept], "arguments")
    _agree([v.type for v in list(main.operations)[-1].operation.operands], outputs, "results")
    running = _running(functions)
    return Program(
        module, context, tuple(kernels), calls, inputs, outputs, kept, functions, running
    )


def _agree(types: Sequence[ir.Type], specs: Sequence[ArraySpec], what: str) -> None:
    """The module must have the types that the artifact declares: calling it would convert."""
    found = [read_type(t) for t in types]
    if [(t.shape, tensor_dtype(t.element)) for t in found] != [
        (s.shape, np.dtype(s.dtype)) for s in specs
    ]:
        raise BadArtifact(f"the {what} of the program are not those that the artifact declares")


def _functions(module: ir.Module) -> dict[str, ir.Operation]:
    found: dict[str, ir.Operation] = {}
    for top in module.body.operations:
        op = top.operation
        if op.name != "func.func" or len(op.regions[0].blocks) != 1:
            raise BadArtifact(f"{op.name} at the top of the program instead of a function")
        found[ir.StringAttr(op.attributes["sym_name"]).value] = op
    return found


def callee_of(op: ir.Operation) -> str:
    """The function that a call calls; empty for any other operation."""
    if op.name != "func.call":
        return ""
    return ir.FlatSymbolRefAttr(op.attributes["callee"]).value


def _running(functions: dict[str, ir.Operation]) -> frozenset[str]:
    """Functions with a kernel inside or below; raises `BadArtifact` for recursion."""
    calls = {
        n: {c for op in walk_operations(f) if (c := callee_of(op))} for n, f in functions.items()
    }
    order: list[str] = []
    waiting = {n: {c for c in called if c in functions} for n, called in calls.items()}
    while waiting:
        ready = [n for n, called in waiting.items() if called.isdisjoint(waiting)]
        if not ready:
            raise BadArtifact(f"functions that call themselves: {', '.join(sorted(waiting))[:200]}")
        for name in ready:
            del waiting[name]
        order += ready
    found: set[str] = set()
    for name in order:
        own = any(target_of(op) == TARGET for op in walk_operations(functions[name]))
        if own or not calls[name].isdisjoint(found):
            found.add(name)
    return frozenset(found)


def _kernel(op: ir.Operation, context: ir.Context) -> Kernel:
    if len(op.results) == 0:
        raise BadArtifact("a kernel without results")
    try:
        return read_kernel(op, context)
    except MosaicError as error:
        name = op.attributes.get("kernel_name", "?")
        error.kernel = error.kernel or str(name).strip('"')
        raise
