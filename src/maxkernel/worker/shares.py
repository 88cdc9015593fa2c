"""Which part of a program's work lies in Pallas kernels and which part XLA does."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from jaxlib.mlir import ir

from maxkernel.types.artifact import ArtifactFacts
from maxkernel.worker import mosaic
from maxkernel.worker.mosaic.artifact import TARGET, target_of, walk_operations
from maxkernel.worker.mosaic.facts import tensor_bytes
from maxkernel.worker.mosaic.work import kernel_flops, outer_flops, trip_counts

_LAYOUT = frozenset(
    f"stablehlo.{name}"
    for name in (
        "bitcast_convert broadcast_in_dim case concatenate constant convert copy custom_call "
        "dynamic_slice dynamic_update_slice gather if iota optimization_barrier pad reshape "
        "return reverse slice transpose while"
    ).split()
)
"""Outer operations that move or relabel data, or only hold others."""


@dataclass(frozen=True)
class Work:
    """Work of one part: operations of matrix products, bytes read and written."""

    flops: float = 0.0
    bytes: float = 0.0

    def __add__(self, other: Work) -> Work:
        return Work(self.flops + other.flops, self.bytes + other.bytes)


@dataclass(frozen=True)
class Shares:
    """Work of every kernel by index, over all its calls, and of the operations around them."""

    kernels: tuple[Work, ...]
    outside: Work


def shares_of(program: mosaic.Program, facts: ArtifactFacts) -> Shares:
    """Rough: loops of unknown trip count count once, fusion is foreseen in the simplest way."""
    trips, _ = trip_counts(program)
    kernels = [Work() for _ in program.kernels]
    outside = Work()
    for op in walk_operations(program.module.operation):
        times = trips.get(op.results[0], 1.0) if len(op.results) else 1.0
        if target_of(op) == TARGET:
            index = program.calls[op.results[0]]
            given = sum(map(tensor_bytes, (*op.operands, *op.results)))
            moved = facts.pallas_calls[index].moved_bytes or given
            flops = kernel_flops(program.kernels[index])
            kernels[index] += Work(times * flops, times * min(moved, given))
        elif _computes(op):
            outside += Work(times * outer_flops(op), times * _unfused_bytes(op))
    return Shares(tuple(kernels), outside)


def with_shares(facts: ArtifactFacts, shares: Shares, working: Collection[int]) -> ArtifactFacts:
    """The facts with the work of the kernels in `working` and of everything outside."""
    from msgspec.structs import replace

    inside = sum((shares.kernels[index] for index in working), Work())
    return replace(
        facts,
        flops_inside=inside.flops,
        bytes_inside=inside.bytes,
        flops_outside=shares.outside.flops,
        bytes_outside=shares.outside.bytes,
    )


def _computes(op: ir.Operation) -> bool:
    return op.name.startswith("stablehlo.") and op.name not in _LAYOUT


def _unfused_bytes(op: ir.Operation) -> float:
    """Bytes of the operands and results of an operation that no computing neighbour shares."""
    read = sum(
        tensor_bytes(v)
        for v in op.operands
        if isinstance(v.owner, ir.Block) or not _computes(v.owner.operation)
    )
    written = sum(
        tensor_bytes(v)
        for v in op.results
        if any(not _computes(use.owner.operation) for use in v.uses)
    )
    return read + written
