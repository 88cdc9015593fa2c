"""Cuts out of an exported program what the small operands of its kernels depend on.

Those operands decide trip counts and what is copied. The rest of the program, with its full-size
tensors, is neither computed nor asked for: the slice is a program of its own for XLA's CPU backend.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax.export
import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs._stablehlo import deserialize_portable_artifact
from jaxlib.mlir.dialects import func  # pyright: ignore[reportMissingTypeStubs]
from jaxlib.mlir.passmanager import PassManager  # pyright: ignore[reportMissingTypeStubs]

from maxkernel.worker.inlining import inline, name_of
from maxkernel.worker.mosaic.artifact import TARGET, target_of, walk_operations
from maxkernel.worker.mosaic.errors import refusing
from maxkernel.worker.mosaic.facts import tensor_bytes
from maxkernel.worker.mosaic.read import Value, new_context
from maxkernel.worker.mosaic.segment import check_host_free, cpu_program
from maxkernel.worker.mosaic.work import outer_flops
from maxkernel.worker.operand_types import hlo_type, small_float, small_integer

RAGGED = "ragged-dot-metadata"
"""XLA's name of the kernel that turns the sizes of groups into a list of visits."""
FLOPS_LIMIT = 2e11
BYTES_LIMIT = 4 << 30
"""What a slice may compute and hold: a few seconds on a laptop."""

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Call:
    """One kernel call of the program."""

    name: str
    signature: tuple[str, ...]
    """Type of each operand as HLO writes it."""
    roots: dict[int, int]
    """Operand position -> index into what `Slice.run` returns."""


@dataclass(frozen=True)
class Slice:
    """The operands of all kernels as functions of some of the program's inputs."""

    calls: tuple[Call, ...]
    inputs: tuple[int, ...]
    """Inputs of the program that `run` takes, in order."""
    run: Callable[[Sequence[Array]], list[Array]]
    unknown: tuple[str, ...]
    """Why operands are left out, in words."""


def slice_program(exported: jax.export.Exported) -> Slice:
    """The slice of a program for the TPU. Raises MosaicError where it cannot be read or run."""
    with refusing("looking for the scalars of the program"):
        return _slice(exported)


def _slice(exported: jax.export.Exported) -> Slice:
    context = new_context()
    module = deserialize_portable_artifact(context, exported.mlir_module_serialized)
    module.operation.verify()
    inline(module, context)
    main = next(f for f in module.body.operations if name_of(f) == "main")
    finder = _Finder(main.operation.regions[0].blocks[0])
    found = (finder.steered(op) for op in walk_operations(main.operation))
    calls = tuple(call for call in found if call is not None)
    kept = exported.module_kept_var_idx
    needed = [argument.arg_number for argument in finder.arguments()]
    run = _build(module, main, finder)
    return Slice(calls, tuple(kept[n] for n in needed), run, tuple(dict.fromkeys(finder.unknown)))


class _Finder:
    """Follows operands of kernels back to values of the main block."""

    def __init__(self, main: ir.Block) -> None:
        self.main = main
        self.roots: list[Value] = []
        self.unknown: list[str] = []
        self.needed: set[ir.Operation] = set()
        self._lifted: dict[Value, Value | None] = {}
        self._with_kernel: dict[ir.Operation, bool] = {}

    def steered(self, op: ir.Operation) -> Call | None:
        """What is known of an operation whose time depends on data; None for others."""
        if target_of(op) == TARGET:
            return self.call(op)
        if op.name == "stablehlo.composite" and "ragged_dot" in str(op.attributes["name"]):
            return self.ragged(op)
        return None

    def ragged(self, op: ir.Operation) -> Call:
        """A ragged product, for which XLA makes a kernel that reads the sizes of the groups."""
        sizes = op.operands[2]
        roots = self._roots({0: sizes}, op, RAGGED)
        return Call(RAGGED, (hlo_type(sizes),), roots)

    def call(self, op: ir.Operation) -> Call:
        """A kernel of the program's own."""
        name = (
            str(op.attributes["kernel_name"]).strip('"') if "kernel_name" in op.attributes else ""
        )
        roots = self._roots(dict(enumerate(op.operands)), op, name)
        return Call(name, tuple(hlo_type(v) for v in op.operands), roots)

    def _roots(self, operands: dict[int, Value], op: ir.Operation, name: str) -> dict[int, int]:
        """Small operands by position, as indices into the roots; what is in the way is noted."""
        roots: dict[int, int] = {}
        for position, operand in operands.items():
            number = small_float(operand)
            if not number and not small_integer(operand):
                continue
            value = self._lift(operand, op)
            reason = "it changes from one execution to the next" if value is None else ""
            slice_ = self._behind(value) if value is not None else set[ir.Operation]()
            reason = reason or self._too_much(slice_)
            if value is None or reason:
                if not number:
                    self.unknown.append(f"operand {position} of {name or 'a kernel'}: {reason}")
                continue
            self.needed |= slice_
            if value not in self.roots:
                self.roots.append(value)
            roots[position] = self.roots.index(value)
        return roots

    def arguments(self) -> list[Any]:
        """Arguments of the main block that the roots depend on, in order."""
        used = {v for op in self.needed for v in _reads(op)} | set(self.roots)
        return [argument for argument in self.main.arguments if argument in used]

    def _lift(self, value: Value, before: ir.Operation) -> Value | None:
        """The value of the main block that always equals this one, which may lie in a loop."""
        if value not in self._lifted:
            self._lifted[value] = self._outside(value, before)
        return self._lifted[value]

    def _outside(self, value: Value, before: ir.Operation) -> Value | None:
        owner: Any = value.owner
        if isinstance(value, ir.BlockArgument):
            return value if owner == self.main else self._carried(value, before)
        if owner.operation.block == self.main:
            return value
        if any(v not in _defined(owner.operation) for v in _inner_reads(owner.operation)):
            return None
        operands = [self._lift(v, before) for v in owner.operation.operands]
        if any(v is None for v in operands) or target_of(owner.operation):
            return None
        clone = owner.operation.clone(ir.InsertionPoint(self._enclosing(before)))
        for number, operand in enumerate(operands):
            clone.operation.operands[number] = operand
        return clone.operation.results[ir.OpResult(value).result_number]

    def _carried(self, argument: Any, before: ir.Operation) -> Value | None:
        """A value that a loop passes on unchanged."""
        block = argument.owner
        loop: ir.Operation = block.owner.operation
        if loop.name != "stablehlo.while":
            return None
        body = loop.regions[1].blocks[0]
        number = argument.arg_number
        last = list(body.operations)[-1].operation
        if last.operands[number] != body.arguments[number]:
            return None
        return self._lift(loop.operands[number], before)

    def _enclosing(self, op: ir.Operation) -> ir.Operation:
        while op.block != self.main:
            parent = op.parent
            assert parent is not None
            op = parent.operation
        return op

    def _behind(self, value: Value) -> set[ir.Operation]:
        """Operations of the main block that a value depends on."""
        found: set[ir.Operation] = set()
        todo = [value]
        while todo:
            value = todo.pop()
            if isinstance(value, ir.BlockArgument):
                continue
            owner: Any = value.owner
            op = owner.operation
            if op.block == self.main and op not in found:
                found.add(op)
                todo += _reads(op)
        return found

    def _too_much(self, operations: set[ir.Operation]) -> str:
        """Why a slice is not run; empty where it is."""
        if any(self._runs_kernel(op) for op in operations):
            return "it is the result of a kernel"
        inner = [op for top in operations for op in (top, *walk_operations(top))]
        if sum(map(outer_flops, inner)) > FLOPS_LIMIT:
            return f"it takes more than {FLOPS_LIMIT:.0g} operations to compute"
        if sum(tensor_bytes(v) for op in operations for v in op.results) > BYTES_LIMIT:
            return f"it takes more than {BYTES_LIMIT >> 30} GiB to compute"
        return ""

    def _runs_kernel(self, op: ir.Operation) -> bool:
        if op not in self._with_kernel:
            inside = (op, *walk_operations(op))
            self._with_kernel[op] = any(target_of(inner) == TARGET for inner in inside)
        return self._with_kernel[op]


def _defined(op: ir.Operation) -> set[Value]:
    """Values that the regions of an operation define."""
    inner = list(walk_operations(op))
    found: set[Value] = {v for o in inner for v in o.results}
    for o in (op, *inner):
        found |= {a for region in o.regions for block in region.blocks for a in block.arguments}
    return found


def _inner_reads(op: ir.Operation) -> list[Value]:
    return [v for inner in walk_operations(op) for v in inner.operands]


def _reads(op: ir.Operation) -> list[Value]:
    """Values from outside that an operation and its regions read."""
    return [*op.operands, *(v for v in _inner_reads(op) if v not in _defined(op))]


def _build(
    module: ir.Module, main: Any, finder: _Finder
) -> Callable[[Sequence[Array]], list[Array]]:
    """The slice, compiled for the CPU when it is first run; it takes `finder.arguments()`."""
    arguments = finder.arguments()
    if all(isinstance(value, ir.BlockArgument) for value in finder.roots):
        places = [arguments.index(value) for value in finder.roots]
        return lambda arrays: [arrays[place] for place in places]
    operations = [op.operation for op in finder.main.operations if op.operation in finder.needed]
    check_host_free(module, operations)
    with module.context, ir.Location.unknown():
        kind = ir.FunctionType.get([v.type for v in arguments], [v.type for v in finder.roots])
        made = func.FuncOp("sliced", kind, ip=ir.InsertionPoint(module.body))
        entry = made.add_entry_block()
        for op in operations:
            entry.append(op)
        roots = [
            entry.arguments[arguments.index(v)] if isinstance(v, ir.BlockArgument) else v
            for v in finder.roots
        ]
        for value, argument in zip(arguments, entry.arguments, strict=True):
            value.replace_all_uses_with(argument)
        func.ReturnOp(roots, ip=ir.InsertionPoint(entry))
        main.operation.erase()
        made.attributes["sym_name"] = ir.StringAttr.get("main")
        PassManager.parse("builtin.module(symbol-dce)").run(module.operation)
    return _Compiled(module)


class _Compiled:
    def __init__(self, module: ir.Module) -> None:
        self._module = module
        self._run: Callable[[Sequence[Array]], list[Array]] | None = None

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        if self._run is None:
            self._run = cpu_program(self._module)
        with refusing("computing the scalars of the program"):
            return self._run(arrays)
