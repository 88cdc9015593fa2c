"""Replaces the calls of a program by what they call, also inside loops."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.passmanager import PassManager  # pyright: ignore[reportMissingTypeStubs]

from maxkernel.worker.mosaic.artifact import callee_of, walk_operations
from maxkernel.worker.mosaic.errors import Exhausted
from maxkernel.worker.mosaic.read import Value

OPERATIONS_LIMIT = 200_000
"""Operations of the program with every call inlined."""


def name_of(op: Any) -> str:
    """The name of a function."""
    return ir.StringAttr(op.operation.attributes["sym_name"]).value


def inline(module: ir.Module, context: ir.Context) -> None:
    """Replaces calls by what they call, in `main`. Raises Exhausted for a program that explodes."""
    functions = {name_of(f): f.operation for f in module.body.operations}
    sizes: dict[str, int] = {}

    def size(name: str, depth: int) -> int:
        if depth > 200:
            raise Exhausted("functions are nested too deep")
        if name not in sizes:
            inside = list(walk_operations(functions[name]))
            called = [callee_of(op) for op in inside if callee_of(op)]
            sizes[name] = len(inside) + sum(size(other, depth + 1) for other in called)
        return sizes[name]

    if size("main", 0) > OPERATIONS_LIMIT:
        raise Exhausted(f"more than {OPERATIONS_LIMIT} operations around the kernels")
    with context, ir.Location.unknown():
        PassManager.parse("builtin.module(inline)").run(module.operation)
        while calls := [op for op in walk_operations(functions["main"]) if callee_of(op)]:
            for op in calls:
                _expand(op, functions[callee_of(op)].regions[0].blocks[0])
        PassManager.parse("builtin.module(symbol-dce)").run(module.operation)


def _expand(call: ir.Operation, callee: ir.Block) -> None:
    """Puts a function's operations in the place of a call: the pass leaves loops alone."""
    known: dict[Value, Value] = dict(zip(callee.arguments, call.operands, strict=True))
    *body, last = [op.operation for op in callee.operations]
    for op in body:
        clone = op.clone(ir.InsertionPoint(call)).operation
        for inner in (clone, *walk_operations(clone)):
            for number, value in enumerate(inner.operands):
                if value in known:
                    inner.operands[number] = known[value]
        known.update(zip(op.results, clone.results, strict=True))
    for result, value in zip(call.results, last.operands, strict=True):
        result.replace_all_uses_with(known[value])
    call.erase()
