"""Static facts of an artifact that rules are made of: targets, constants, shares of the work."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from jaxlib.mlir import ir

from maxkernel.worker.mosaic.artifact import TARGET, Program, target_of, walk_operations
from maxkernel.worker.mosaic.dtypes import bits
from maxkernel.worker.mosaic.errors import Unsupported, refusing
from maxkernel.worker.mosaic.flow import kernels_in_results
from maxkernel.worker.mosaic.launch import launch
from maxkernel.worker.mosaic.memory import Array
from maxkernel.worker.mosaic.model import Kernel, Options
from maxkernel.worker.mosaic.outer import run
from maxkernel.worker.mosaic.read import Value, read_type
from maxkernel.worker.mosaic.segment import REFUSED
from maxkernel.worker.mosaic.work import kernel_flops, outer_flops, trip_counts

_FREE = {
    "stablehlo.constant",
    "stablehlo.reshape",
    "stablehlo.return",
    "stablehlo.iota",
    "stablehlo.broadcast_in_dim",
    "stablehlo.while",
    "stablehlo.case",
    "stablehlo.if",
    "stablehlo.custom_call",
    "func.call",
    "func.func",
    "func.return",
}
"""Outer operations that move no bytes of their own."""
_MODULE = {
    "sym_name",
    "jax.uses_shape_polymorphism",
    "mhlo.num_partitions",
    "mhlo.num_replicas",
}
_MAIN = {"jax.result_info", "jax.arg_info", "tf.aliasing_output", "jax.buffer_donor"}
"""Attributes that modules and main functions of honest captures have; placement on the host and
the like would be others."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about one artifact. Operations and bytes are rough: loops of unknown trip count are
    counted once, branches all, and XLA's fusions are not foreseen."""

    targets: Counter[str]
    """Custom-call targets of the outer program."""
    forbidden: tuple[str, ...]
    """Host communication, custom calls other than kernels, attributes (placement, sharding,
    compiler hints) that no plain capture has."""
    constant_bytes: int
    """Bytes of array constants (those that repeat one element count as one element)."""
    reaching: frozenset[int]
    """Kernels that the results may depend on."""
    flops_inside: float
    """Multiply-adds x 2 of matrix products inside kernels."""
    flops_outside: float
    bytes_inside: float
    """Bytes of kernels' operands and results."""
    bytes_outside: float
    """Bytes of operands and results of outer operations that compute or copy."""
    default_f32_matmuls: int
    """Products of f32 matrices at default precision, which the MXU rounds to bf16."""
    donated: tuple[int, ...]
    """Arguments that are donated or aliased to results."""
    operations: Counter[str]
    """Outer operations."""
    unknown_trips: int
    """Outer loops whose trip count could not be read."""


def tensor_bytes(value: Value) -> float:
    """Bytes of a tensor; zero for tokens and the like."""
    t = read_type(value.type)
    if t.kind != "tensor" or any(n < 0 for n in t.shape):
        return 0.0
    try:
        return t.size * bits(t.element.replace("ui", "i")) / 8
    except ValueError:
        return 0.0


def gather_facts(program: Program) -> Facts:
    """Facts of a loaded artifact."""
    with refusing("gathering facts"):
        return _gather(program)


def _gather(program: Program) -> Facts:
    operations = list(walk_operations(program.module.operation))
    targets = Counter(t for op in operations if (t := target_of(op)))
    trips, unknown = trip_counts(program)
    inside = outside = inside_bytes = outside_bytes = 0.0
    for op in operations:
        times = trips.get(op.results[0], 1.0) if len(op.results) else 1.0
        moved = sum(map(tensor_bytes, (*op.operands, *op.results)))
        if target_of(op) == TARGET:
            inside += times * kernel_flops(program.kernels[program.calls[op.results[0]]])
            inside_bytes += times * moved
        elif op.name not in _FREE:
            outside += times * outer_flops(op)
            outside_bytes += times * moved
    return Facts(
        targets=targets,
        forbidden=_forbidden(program, operations),
        constant_bytes=sum(map(_constant_bytes, operations))
        + sum(map(_kernel_constants, program.kernels)),
        reaching=kernels_in_results(program),
        flops_inside=inside,
        flops_outside=outside,
        bytes_inside=inside_bytes,
        bytes_outside=outside_bytes,
        default_f32_matmuls=sum(map(_default_f32, program.kernels)),
        donated=_donated(program),
        operations=Counter(op.name for op in operations),
        unknown_trips=unknown,
    )


def _forbidden(program: Program, operations: Sequence[ir.Operation]) -> tuple[str, ...]:
    found = {op.name for op in operations if op.name in REFUSED}
    found |= {f"custom call {t}" for op in operations if (t := target_of(op)) not in ("", TARGET)}
    for op in operations:
        found |= {f"attribute {n} of {op.name}" for n in op.attributes if _odd(op, n)}
    for name in program.module.operation.attributes:
        if name not in _MODULE:
            found.add(f"attribute {name} of the module")
    for function in program.functions.values():
        for name in ("arg_attrs", "res_attrs"):
            for attributes in cast("Any", function.attributes.get(name, ())):
                found |= {f"attribute {a.name} of main" for a in attributes if a.name not in _MAIN}
    for kernel in program.kernels:
        if kernel.side_effects:
            found.add(f"kernel {kernel.name} declares side effects")
        if kernel.config.get("has_communication"):
            found.add(f"kernel {kernel.name} communicates with other devices")
    return tuple(sorted(found))


def _odd(op: ir.Operation, name: str) -> bool:
    if target_of(op) == TARGET or op.name == "func.func":
        return False
    return name.startswith(("mhlo.", "xla.", "sdy.", "_xla"))


def _constant_bytes(op: ir.Operation) -> int:
    if op.name != "stablehlo.constant":
        return 0
    attr: Any = op.attributes["value"]
    t = read_type(op.results[0].type)
    width = tensor_bytes(op.results[0]) / max(t.size, 1)
    return math.ceil(width * (1 if getattr(attr, "is_splat", False) else t.size))


def _kernel_constants(kernel: Kernel) -> int:
    arrays = [op.attrs.get("value") for op in kernel.body.walk() if op.name == "arith.constant"]
    return sum(
        a.itemsize if not any(a.strides) else a.nbytes for a in arrays if isinstance(a, np.ndarray)
    )


def _default_f32(kernel: Kernel) -> int:
    types = kernel.body.types
    return sum(
        op.name == "tpu.matmul"
        and "f32" in (types[op.operands[0]].element, types[op.operands[1]].element)
        and "fp32" not in op.text("precision")
        for op in kernel.body.walk()
    )


def _donated(program: Program) -> tuple[int, ...]:
    attributes: Any = program.functions["main"].attributes.get("arg_attrs")
    if attributes is None:
        return ()
    marks = ("tf.aliasing_output", "jax.buffer_donor")
    return tuple(k for k, a in enumerate(attributes) if any(m in str(a) for m in marks))


def influence(
    program: Program, inputs: Sequence[Any], options: Options | None = None
) -> frozenset[int]:
    """Indices of kernels whose results the program's results change with, found by running it.

    Each kernel in turn is replaced by one that returns its own results perturbed: a kernel whose
    results are discarded, or multiplied by what happens to be zero, is not in the answer.
    """
    chosen = options or Options()
    plain = run(program, inputs, chosen)
    found: set[int] = set()
    for k in range(len(program.kernels)):
        other = run(program, inputs, chosen, instead={k: _perturbed(program, k, chosen)})
        if _differs(plain, other):
            found.add(k)
    return frozenset(found)


def _perturbed(program: Program, index: int, options: Options) -> Any:
    def instead(operands: Sequence[Array]) -> list[Array]:
        found = launch(program.executable(index, options), operands).outputs
        return [_nudged(a) for a in found]

    return instead


def _nudged(array: Array) -> Array:
    if array.dtype == np.bool_:
        return ~array
    if array.dtype.kind in "iu":
        return array + np.ones((), array.dtype)
    if array.dtype.itemsize < 1:
        raise Unsupported(f"a kernel result of {array.dtype}")
    return (array.astype(np.float32) * 1.5 + 1.0).astype(array.dtype)


def _differs(a: Sequence[Array], b: Sequence[Array]) -> bool:
    return any(x.tobytes() != y.tobytes() for x, y in zip(a, b, strict=True))
