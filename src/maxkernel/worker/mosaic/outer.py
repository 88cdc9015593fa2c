"""Executes a whole program: XLA for the ordinary operations, the interpreter for the kernels.

Every block of the outer program is cut at its kernels and at the control flow around them. The
runs in between are compiled by XLA for the CPU (`segment`); loops and branches that contain
kernels are walked here.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from maxkernel.worker.mosaic.artifact import (
    TARGET,
    Program,
    callee_of,
    target_of,
    walk_operations,
)
from maxkernel.worker.mosaic.dtypes import tensor_dtype
from maxkernel.worker.mosaic.errors import BadArtifact, Exhausted, Unsupported, refusing
from maxkernel.worker.mosaic.launch import launch
from maxkernel.worker.mosaic.memory import Array
from maxkernel.worker.mosaic.model import Options
from maxkernel.worker.mosaic.read import Value, location_of, read_type
from maxkernel.worker.mosaic.segment import Segment, Values
from maxkernel.worker.mosaic.windows import as_element

Path = tuple[tuple[int, int], ...]
_CONTROL = {"stablehlo.while", "stablehlo.case", "stablehlo.if", "func.call"}


@dataclass(slots=True, eq=False)
class Stop:
    """A kernel or a control operation at position `at` of its block."""

    op: ir.Operation
    at: int


Plan = list[Segment | Stop]
Instead = Callable[[Sequence[Array]], list[Array]]
"""What to do in place of a kernel: operands of the call to its results."""


def run(
    program: Program,
    inputs: Sequence[Any],
    options: Options | None = None,
    *,
    instead: Mapping[int, Instead] | None = None,
) -> list[Array]:
    """Execute a program on arrays and return its results, in the order of its signature.

    `instead` replaces kernels, by index: a function from the operands of the call to its results.
    Raises a `MosaicError`.
    """
    if len(inputs) != len(program.inputs):
        raise BadArtifact(f"{len(inputs)} inputs for {len(program.inputs)}")
    arrays = [np.asarray(a) for a in inputs]
    for k, (array, spec) in enumerate(zip(arrays, program.inputs, strict=True)):
        if array.shape != spec.shape or array.dtype.name != spec.dtype:
            raise BadArtifact(f"input {k} is {array.dtype}{array.shape}, not {spec}")
    runner = _Run(program, options or Options(), instead or {})
    with refusing("running the program"):
        return runner.call("main", [arrays[k] for k in program.kept])


class _Run:
    def __init__(self, program: Program, options: Options, instead: Mapping[int, Instead]) -> None:
        self.program = program
        self.options = options
        self.instead = instead
        self.fuel = options.steps
        self.deadline = time.monotonic() + options.seconds

    def call(self, name: str, arrays: Sequence[Array]) -> list[Array]:
        names = list(self.program.functions)
        if name not in self.program.functions:
            raise BadArtifact(f"a call of {name}, which does not exist")
        block = self.program.functions[name].regions[0].blocks[0]
        return self.block(block, ((names.index(name), 0),), arrays, {})

    def block(
        self, block: ir.Block, path: Path, arrays: Sequence[Array], outside: Values
    ) -> list[Array]:
        """Run a block; `outside` holds the values of the blocks around it."""
        self.tick()
        values = dict(outside)
        values.update(zip(block.arguments, arrays, strict=True))
        for item in self.plan(block, path):
            if isinstance(item, Segment):
                item.execute(self.program.module, values)
            else:
                found = self.stop(item, path, values)
                values.update(zip(item.op.results, found, strict=True))
        last = list(block.operations)[-1].operation
        return [values[v] for v in last.operands]

    def tick(self) -> None:
        self.fuel -= 1
        if self.fuel < 0 or time.monotonic() > self.deadline:
            raise Exhausted("the program around the kernels runs too long")

    def plan(self, block: ir.Block, path: Path) -> Plan:
        plans = self.program.plans
        if path not in plans:
            plans[path] = make_plan(self.program, block, path)
        return plans[path]

    def stop(self, stop: Stop, path: Path, values: Values) -> list[Array]:
        op = stop.op
        arrays = [values[v] for v in op.operands]
        if op.name == "stablehlo.custom_call":
            return self.kernel(op, arrays)
        if op.name == "func.call":
            return self.call(callee_of(op), arrays)

        def inner(region: int, given: Sequence[Array]) -> list[Array]:
            block = op.regions[region].blocks[0]
            return self.block(block, (*path, (stop.at, region)), given, values)

        if op.name == "stablehlo.while":
            while bool(inner(0, arrays)[0]):
                arrays = inner(1, arrays)
            return arrays
        if op.name == "stablehlo.if":
            return inner(0 if bool(arrays[0]) else 1, ())
        branch = int(arrays[0])
        return inner(branch if 0 <= branch < len(op.regions) else len(op.regions) - 1, ())

    def kernel(self, op: ir.Operation, arrays: Sequence[Array]) -> list[Array]:
        index = self.program.calls[op.results[0]]
        if index in self.instead:
            found = self.instead[index](arrays)
        else:
            found = launch(self.program.executable(index, self.options), arrays).outputs
        types = (read_type(v.type) for v in op.results)
        return [as_element(a, _dtype(t.element)) for a, t in zip(found, types, strict=True)]


def _dtype(element: str) -> np.dtype[Any]:
    found = tensor_dtype(element)
    if found is None:
        raise Unsupported(f"a kernel result of element type {element}")
    return found


def has_kernel(program: Program, op: ir.Operation) -> bool:
    """True when running the operation may run a kernel."""
    return any(
        target_of(inner) == TARGET or callee_of(inner) in program.running
        for inner in (op, *walk_operations(op))
    )


def make_plan(program: Program, block: ir.Block, path: Path) -> Plan:
    """Cut a block at its kernels and the control flow around them."""
    operations = [op.operation for op in block.operations]
    cuts = [k for k, op in enumerate(operations) if has_kernel(program, op)]
    for k in cuts:
        op = operations[k]
        if op.name not in _CONTROL and target_of(op) != TARGET:
            raise Unsupported("a kernel inside this", op=op.name, location=location_of(op))
    plan: Plan = []
    start = 0
    for cut in (*cuts, len(operations) - 1):
        if cut > start:
            plan.append(_segment(block, path, operations, start, cut))
        if cut != len(operations) - 1:
            plan.append(Stop(operations[cut], cut))
        start = cut + 1
    return plan


def _segment(
    block: ir.Block, path: Path, operations: list[ir.Operation], first: int, last: int
) -> Segment:
    mine = operations[first:last]
    everything = [op for top in mine for op in (top, *walk_operations(top))]
    inside = {v for op in everything for v in op.results}
    inside |= {a for op in everything for r in op.regions for b in r.blocks for a in b.arguments}
    inputs: dict[Value, None] = {}
    for op in everything:
        inputs.update((v, None) for v in op.operands if v not in inside)
    later = {
        v for top in operations[last:] for op in (top, *walk_operations(top)) for v in op.operands
    }
    outputs = tuple(v for op in mine for v in op.results if v in later)
    return Segment(block, path, first, last, tuple(inputs), outputs)
