"""Which kernels the results of a program depend on, followed through its outer operations.

A product with a constant zero, a difference of a value and itself and a choice with a constant
condition carry nothing. What only a run can tell is told by `influence` in `facts`.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jaxlib.mlir import ir

from maxkernel.worker.mosaic.artifact import TARGET, Program, callee_of, target_of
from maxkernel.worker.mosaic.errors import BadArtifact
from maxkernel.worker.mosaic.read import Value

VISITS_LIMIT = 1_000_000
"""Most operations visited, each call and loop anew."""
_SPREADING = {
    "stablehlo.reshape",
    "stablehlo.broadcast_in_dim",
    "stablehlo.transpose",
    "stablehlo.convert",
    "stablehlo.slice",
    "stablehlo.reverse",
}
_CANCELLING = {"stablehlo.subtract", "stablehlo.xor"}
_PRODUCTS = {"stablehlo.multiply", "stablehlo.and", "stablehlo.dot_general"}


@dataclass(frozen=True, slots=True)
class Fact:
    """What is known of a value: the kernels that it depends on, and its splat constant."""

    kernels: frozenset[int] = frozenset()
    constant: float | None = None


Facts = dict[Value, Fact]


def kernels_in_results(program: Program) -> frozenset[int]:
    """Indices of the kernels that the program's results may depend on."""
    main = program.functions["main"].regions[0].blocks[0]
    returned = _Flow(program).block(main, [Fact()] * len(main.arguments), {})
    return frozenset(k for fact in returned for k in fact.kernels)


class _Flow:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.visits = 0

    def block(self, block: ir.Block, arguments: Sequence[Fact], outside: Facts) -> list[Fact]:
        facts = dict(outside)
        facts.update(zip(block.arguments, arguments, strict=True))
        operations = [op.operation for op in block.operations]
        self.visits += len(operations)
        if self.visits > VISITS_LIMIT:
            raise BadArtifact("calls and loops nested so deep that they cannot be followed")
        for op in operations[:-1]:
            given = [facts[v] for v in op.operands]
            facts.update(zip(op.results, self.op(op, given, facts), strict=True))
        return [facts[v] for v in operations[-1].operands]

    def op(self, op: ir.Operation, given: list[Fact], facts: Facts) -> list[Fact]:
        """Facts of an operation's results."""
        count = len(op.results)
        if target_of(op) == TARGET:
            mine = self.program.calls[op.results[0]]
            return [Fact(_union(given) | {mine})] * count
        if op.name == "func.call":
            callee = self.program.functions[callee_of(op)].regions[0].blocks[0]
            return self.block(callee, given, {})
        if op.name == "stablehlo.while":
            return self.loop(op, given, facts)
        if op.name in ("stablehlo.if", "stablehlo.case"):
            return self.branches(op, given, facts)
        if len(op.regions):
            inner = self.regions(op, facts)
            return [Fact(_union(given) | inner)] * count
        if count != 1:
            return [Fact(_union(given))] * count
        return [_simple(op, given)]

    def regions(self, op: ir.Operation, facts: Facts) -> frozenset[int]:
        found: frozenset[int] = frozenset()
        for region in op.regions:
            for block in region.blocks:
                returned = self.block(block, [Fact()] * len(block.arguments), facts)
                found |= _union(returned)
        return found

    def loop(self, op: ir.Operation, given: list[Fact], facts: Facts) -> list[Fact]:
        carried = [Fact(f.kernels) for f in given]
        while True:
            condition = self.block(op.regions[0].blocks[0], carried, facts)
            after = self.block(op.regions[1].blocks[0], carried, facts)
            decided = _union(condition)
            merged = [
                Fact(a.kernels | b.kernels | decided) for a, b in zip(carried, after, strict=True)
            ]
            if merged == carried:
                return carried
            carried = merged

    def branches(self, op: ir.Operation, given: list[Fact], facts: Facts) -> list[Fact]:
        blocks = [region.blocks[0] for region in op.regions]
        chosen = given[0].constant
        if chosen is not None:
            truth = op.name == "stablehlo.if"
            index = (0 if chosen else 1) if truth else int(chosen)
            index = index if 0 <= index < len(blocks) else len(blocks) - 1
            return self.block(blocks[index], [], facts)
        ways = [self.block(b, [], facts) for b in blocks]
        return [Fact(_union(list(way)) | given[0].kernels) for way in zip(*ways, strict=True)]


def _union(facts: Sequence[Fact]) -> frozenset[int]:
    return frozenset(k for f in facts for k in f.kernels)


def _constant(op: ir.Operation) -> Fact:
    attr: Any = op.attributes["value"]
    if not getattr(attr, "is_splat", False):
        return Fact()
    try:
        return Fact(constant=float(attr.get_splat_value().value))
    except (AttributeError, TypeError, ValueError):
        return Fact()


def _simple(op: ir.Operation, given: list[Fact]) -> Fact:
    everything = Fact(_union(given))
    if op.name == "stablehlo.constant":
        return _constant(op)
    if op.name in _SPREADING:
        return given[0]
    if op.name in _PRODUCTS and any(f.constant == 0 for f in given):
        return Fact(constant=0.0)
    if op.name in _CANCELLING and op.operands[0] == op.operands[1]:
        return Fact(constant=0.0)
    if op.name == "stablehlo.select" and given[0].constant is not None:
        return given[1] if given[0].constant else given[2]
    if op.name == "stablehlo.clamp" and given[0].constant is not None:
        return Fact(constant=given[0].constant) if given[0] == given[2] else everything
    return everything
