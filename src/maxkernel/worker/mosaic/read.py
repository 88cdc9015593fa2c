"""Turns MLIR operations into the plain data of `syntax`, with limits on size."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

import math
import re
from typing import Any, TypeAlias

import numpy as np
from jax._src.interpreters.mlir import make_ir_context  # pyright: ignore[reportPrivateUsage]
from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs._tpu_ext import register_dialect

from maxkernel.worker.mosaic.dtypes import numpy_dtype, tensor_dtype
from maxkernel.worker.mosaic.errors import BadArtifact, Unsupported
from maxkernel.worker.mosaic.syntax import Block, Func, Op, Raw, Type

OPS_LIMIT = 200_000
"""Most operations in one kernel."""
VALUE_BYTES_LIMIT = 256 << 20
"""Largest vector value; twice the VMEM of any TPU, so nothing real is refused."""

Value: TypeAlias = "ir.Value[Any]"

SPACES = {"any", "hbm", "vmem", "smem", "semaphore_mem"}
"""Memory spaces of one TensorCore."""

_FILE = re.compile(r'"([^"]+)":(\d+):')
_SPACE = re.compile(r"memory_space<(\w+)>")


def new_context() -> ir.Context:
    """An MLIR context that knows jax's dialects and Mosaic's."""
    context = make_ir_context()
    register_dialect(context)
    context.allow_unregistered_dialects = True
    return context


def _identity(rank: int) -> str:
    dims = ", ".join(f"d{k}" for k in range(rank))
    return f"affine_map<({dims}) -> ({dims})>"


def read_type(t: ir.Type) -> Type:
    """A type as plain data; semaphores are elements named `dma_semaphore` and `semaphore`."""
    if isinstance(t, ir.VectorType):
        return Type("vector", str(t.element_type), tuple(t.shape))
    if isinstance(t, ir.MemRefType):
        found = _SPACE.search(str(t.memory_space))
        if found is None or found[1] not in SPACES:
            raise Unsupported(f"memory space {t.memory_space}")
        if str(t.layout) != _identity(len(t.shape)):
            raise Unsupported(f"a ref with layout {t.layout}")
        element = str(t.element_type).removeprefix("!tpu.")
        return Type("memref", element, tuple(t.shape), found[1])
    if isinstance(t, ir.RankedTensorType):
        return Type("tensor", str(t.element_type), tuple(t.shape))
    if isinstance(t, (ir.IntegerType, ir.FloatType, ir.IndexType)):
        return Type("scalar", str(t))
    return Type("other", str(t).removeprefix("!tpu."))


def _elements(attr: Any) -> Any:
    kind = read_type(attr.type)
    dtype = tensor_dtype(kind.element)
    if dtype is None:
        raise Unsupported(f"a dense constant of element type {kind.element}")
    _limit(kind, dtype.itemsize)
    if attr.is_splat:
        return np.broadcast_to(np.asarray(attr.get_splat_value().value).astype(dtype), kind.shape)
    try:
        return np.array(attr).astype(dtype).reshape(kind.shape)
    except (TypeError, ValueError, BufferError) as error:
        raise Unsupported(f"a dense constant of {kind}: {error}") from error


def _limit(t: Type, itemsize: int) -> None:
    if t.kind == "vector" and math.prod(t.shape) * itemsize > VALUE_BYTES_LIMIT:
        raise BadArtifact(f"a value of type {t} exceeds {VALUE_BYTES_LIMIT >> 20} MiB")


def read_attr(attr: ir.Attribute) -> Any:
    """An attribute as a Python value: int, float, str, tuple, dict, array, `Type`, else `Raw`."""
    if isinstance(attr, (ir.BoolAttr, ir.IntegerAttr, ir.FloatAttr)):
        return attr.value
    if isinstance(attr, (ir.StringAttr, ir.FlatSymbolRefAttr)):
        return attr.value
    if isinstance(attr, ir.TypeAttr):
        return read_type(attr.value)
    if isinstance(attr, (ir.DenseI32ArrayAttr, ir.DenseI64ArrayAttr, ir.DenseBoolArrayAttr)):
        return tuple(attr)
    if isinstance(attr, (ir.DenseIntElementsAttr, ir.DenseFPElementsAttr)):
        return _elements(attr)
    if isinstance(attr, ir.ArrayAttr):
        return tuple(read_attr(a) for a in attr)
    if isinstance(attr, ir.DictAttr):
        return {named.name: read_attr(named.attr) for named in attr}
    return Raw(str(attr))


def location_of(op: ir.Operation) -> str:
    """`file:line` of the innermost source location, or an empty string."""
    found = _FILE.search(str(op.location))
    return f"{found[1]}:{found[2]}" if found else ""


class _Reader:
    def __init__(self) -> None:
        self.numbers: dict[Value, int] = {}
        self.types: list[Type] = [Type("other", "none")]
        self.ops = 0

    def define(self, value: Value) -> int:
        kind = read_type(value.type)
        if kind.kind == "vector":
            _limit(kind, numpy_dtype(kind.element).itemsize)
        self.numbers[value] = len(self.types)
        self.types.append(kind)
        return len(self.types) - 1

    def block(self, region: ir.Region) -> Block:
        if len(region.blocks) == 0:
            return Block((), ())
        if len(region.blocks) != 1:
            raise Unsupported("a region with several blocks (unstructured control flow)")
        block = region.blocks[0]
        args = tuple(self.define(a) for a in block.arguments)
        return Block(args, tuple(self.op(o.operation) for o in block.operations))

    def op(self, op: ir.Operation) -> Op:
        self.ops += 1
        if self.ops > OPS_LIMIT:
            raise BadArtifact(f"a kernel of more than {OPS_LIMIT} operations")
        operands = tuple(self.numbers[v] for v in op.operands)
        regions = tuple(self.block(r) for r in op.regions)
        results = tuple(self.define(v) for v in op.results)
        attrs = {name: read_attr(op.attributes[name]) for name in op.attributes}
        return Op(op.name, operands, results, attrs, regions, location_of(op))


def read_func(op: ir.Operation) -> Func:
    """A `func.func` as plain data."""
    attrs = {name: read_attr(op.attributes[name]) for name in op.attributes}
    reader = _Reader()
    body = reader.block(op.regions[0])
    return Func(str(attrs.get("sym_name", "")), body, tuple(reader.types), attrs)
