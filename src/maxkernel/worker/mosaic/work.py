"""Counts arithmetic: matrix products and convolutions, inside kernels and outside."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

import math
import re

from jaxlib.mlir import ir

from maxkernel.worker.mosaic.artifact import Program, callee_of, walk_operations
from maxkernel.worker.mosaic.errors import BadArtifact
from maxkernel.worker.mosaic.flow import VISITS_LIMIT
from maxkernel.worker.mosaic.model import Kernel
from maxkernel.worker.mosaic.ops.matmul import read_dims
from maxkernel.worker.mosaic.read import Value, read_type
from maxkernel.worker.mosaic.syntax import Block, Func, Op

_CONTRACTING = re.compile(r"lhs_contracting_dimensions = \[([\d, ]*)\]")
_KERNEL = re.compile(r"x\[([^\]]*)\]->")
_GROUPS = "feature_group_count"


def kernel_flops(kernel: Kernel) -> float:
    """Multiply-adds x 2 of a kernel's matrix products over its grid; dynamic bounds count once."""
    steps = math.prod(n for n in kernel.grid if n > 0)
    return steps * _block_flops(kernel.body, kernel.body.body)


def _block_flops(func: Func, block: Block) -> float:
    constants = {
        op.results[0]: op.attrs.get("value") for op in func.walk() if op.name == "arith.constant"
    }

    def op_flops(op: Op) -> float:
        if op.name == "tpu.matmul":
            lhs, out = func.types[op.operands[0]], func.types[op.results[0]]
            depth = math.prod(lhs.shape[k] for k in read_dims(op).lhs_contract)
            return 2.0 * out.size * depth
        inner = sum(op_flops(o) for region in op.regions for o in region.ops)
        if op.name != "scf.for" or not inner:
            return inner
        low, high, by = (constants.get(v) for v in op.operands[:3])
        if isinstance(low, int) and isinstance(high, int) and isinstance(by, int) and by > 0:
            return inner * max(0, -(-(high - low) // by))
        return inner

    return sum(map(op_flops, block.ops))


def outer_flops(op: ir.Operation) -> float:
    """Multiply-adds x 2 of a StableHLO dot or convolution; zero for others."""
    if op.name not in ("stablehlo.dot_general", "stablehlo.dot", "stablehlo.convolution"):
        return 0.0
    left, right = (read_type(v.type) for v in list(op.operands)[:2])
    out = read_type(op.results[0].type)
    if op.name == "stablehlo.dot":
        return 2.0 * out.size * left.shape[-1]
    if op.name == "stablehlo.dot_general":
        found = _CONTRACTING.search(str(op.attributes["dot_dimension_numbers"]))
        axes = [int(n) for n in found[1].split(",") if n.strip()] if found else []
        return 2.0 * out.size * math.prod(left.shape[k] for k in axes)
    layout = _KERNEL.search(str(op.attributes["dimension_numbers"]))
    names = [n.strip() for n in layout[1].split(",")] if layout else []
    per_output = math.prod(n for n, name in zip(right.shape, names, strict=False) if name != "o")
    return 2.0 * out.size * per_output


def _splat(value: Value) -> int | None:
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "stablehlo.constant":
        return None
    attr = owner.attributes["value"]
    if not isinstance(attr, ir.DenseIntElementsAttr) or not attr.is_splat:
        return None
    return int(ir.IntegerAttr(attr.get_splat_value()).value)


def _trips(loop: ir.Operation) -> int | None:
    """Trip count of a loop that counts up to a constant from a constant, as `scan` makes them."""
    block = loop.regions[0].blocks[0]
    for op in block.operations:
        compare = op.operation
        if compare.name != "stablehlo.compare" or "LT" not in str(
            compare.attributes["comparison_direction"]
        ):
            continue
        counter, limit = compare.operands
        if not isinstance(counter, ir.BlockArgument):
            continue
        start, end = _splat(loop.operands[counter.arg_number]), _splat(limit)
        if start is not None and end is not None:
            return max(0, end - start)
    return None


def trip_counts(program: Program) -> tuple[dict[Value, float], int]:
    """How often the op with this first result runs, and how many loops have an unknown count.

    A function called from several places counts the sum of its calls.
    """
    times: dict[Value, float] = {}
    unknown = 0

    visits = 0

    def visit(op: ir.Operation, factor: float) -> None:
        nonlocal unknown, visits
        visits += 1
        if visits > VISITS_LIMIT:
            raise BadArtifact("calls nested so deep that they cannot be followed")
        if len(op.results):
            times[op.results[0]] = times.get(op.results[0], 0.0) + factor
        if callee_of(op) in program.functions:
            visit_all(program.functions[callee_of(op)], factor)
        if op.name == "stablehlo.while":
            trips = _trips(op)
            unknown += trips is None
            factor *= 1 if trips is None else trips
        visit_all(op, factor)

    def visit_all(op: ir.Operation, factor: float) -> None:
        for region in op.regions:
            for block in region.blocks:
                for inner in block.operations:
                    visit(inner.operation, factor)

    visit_all(program.functions["main"], 1.0)
    for op in walk_operations(program.module.operation):
        if len(op.results):
            times.setdefault(op.results[0], 0.0)
    return times, unknown


def sampled_flops(program: Program, kernel: int, blocks: int) -> float:
    """Operations of spot checks of so many blocks of each output of one kernel, about: of other
    kernels all, of what is outside three times as many (see `spot`)."""
    trips, _ = trip_counts(program)
    sampled = program.kernels[kernel]
    shares = [_share(sampled, output, blocks) for output in range(len(sampled.outputs))]
    total = 0.0
    for op in walk_operations(program.module.operation):
        times = trips.get(op.results[0], 1.0) if len(op.results) else 1.0
        index = program.calls.get(op.results[0]) if len(op.results) else None
        if index is None:
            total += 3 * len(shares) * times * outer_flops(op)
        else:
            runs = sum(shares) if index == kernel else len(shares)
            total += runs * times * kernel_flops(program.kernels[index])
    return total


def _share(kernel: Kernel, output: int, blocks: int) -> float:
    window = kernel.windows[len(kernel.inputs) + output]
    shape = kernel.outputs[output].shape
    there = math.prod(-(-n // max(1, b)) for n, b in zip(shape, window.bounds, strict=False))
    return min(1.0, blocks / max(1, there))
