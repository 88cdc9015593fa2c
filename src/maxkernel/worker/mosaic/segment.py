"""Compiles a run of ordinary StableHLO operations with XLA for the CPU.

The run is cloned out of the program into a module of its own, whose arguments are the values it
uses and whose results are the values used after it. Runs made only of reshapes and their like are
done in numpy, which saves the compilation.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax._src.interpreters.mlir import module_to_bytecode  # pyright: ignore[reportPrivateUsage]
from jaxlib import xla_client
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import func  # pyright: ignore[reportMissingTypeStubs]

from maxkernel.worker.mosaic.artifact import callee_of, target_of, walk_operations
from maxkernel.worker.mosaic.errors import Unsupported
from maxkernel.worker.mosaic.memory import Array
from maxkernel.worker.mosaic.read import Value, location_of
from maxkernel.worker.mosaic.simple import simple_run

REFUSED = {"stablehlo.infeed", "stablehlo.outfeed", "stablehlo.send", "stablehlo.recv"}
"""Operations that talk to a host that is not there."""

Values = dict[Value, Array]


@dataclass(slots=True, eq=False)
class Segment:
    """Operations `first .. last` of a block, with what flows in and out."""

    block: ir.Block
    path: tuple[tuple[int, int], ...]
    """From the module: (operation, region) indices down to the block."""
    first: int
    last: int
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    run: Callable[[Sequence[Array]], Sequence[Array]] | None = None

    def operations(self) -> list[ir.Operation]:
        """Its operations."""
        return [op.operation for op in list(self.block.operations)[self.first : self.last]]

    def execute(self, module: ir.Module, values: Values) -> None:
        """Compute the outputs into `values`."""
        if self.run is None:
            self.run = simple_run(self.operations(), self.inputs, self.outputs) or self._xla(module)
        found = self.run([values[v] for v in self.inputs])
        values.update(zip(self.outputs, found, strict=True))

    def _xla(self, module: ir.Module) -> Callable[[Sequence[Array]], Sequence[Array]]:
        check_host_free(module, self.operations())
        return cpu_program(lift(module, self))


def cpu_program(module: ir.Module) -> Callable[[Sequence[Array]], list[Array]]:
    """A module's `main`, compiled by XLA for the CPU. It keeps 64-bit values."""
    device = jax.devices("cpu")[0]
    client: Any = device.client
    loaded = client.compile_and_load(
        module_to_bytecode(module), xla_client.DeviceList((device,)), xla_client.CompileOptions()
    )

    def run(arrays: Sequence[Array]) -> list[Array]:
        with jax.enable_x64(True):
            buffers = [jax.device_put(np.ascontiguousarray(a), device) for a in arrays]
        return [np.asarray(b) for b in loaded.execute(buffers)]

    return run


def check_host_free(module: ir.Module, operations: Sequence[ir.Operation]) -> None:
    """Refuse what would leave the compiled program, here or in functions called: custom calls and
    host transfers."""
    functions = _functions(module)
    for top in (*operations, *(functions[n].operation for n in _reachable(functions, operations))):
        for op in (top, *walk_operations(top)):
            if op.name == "stablehlo.custom_call":
                raise Unsupported(
                    f"custom call {target_of(op)} outside the kernels", location=location_of(op)
                )
            if op.name in REFUSED:
                raise Unsupported("host communication", op=op.name, location=location_of(op))


def _position(value: Value) -> tuple[bool, int]:
    if isinstance(value, ir.BlockArgument):
        return True, value.arg_number
    return False, ir.OpResult(value).result_number


def _block_at(module: ir.Module, path: tuple[tuple[int, int], ...]) -> ir.Block:
    block = module.body
    for op, region in path:
        block = list(block.operations)[op].operation.regions[region].blocks[0]
    return block


class _Twin:
    """Finds, in a clone of the module, what corresponds to a value of the original."""

    def __init__(self, original: ir.Module, clone: ir.Module, path: tuple[tuple[int, int], ...]):
        self.pairs: list[tuple[ir.Block, ir.Block]] = [
            (_block_at(original, path[:n]), _block_at(clone, path[:n]))
            for n in range(1, len(path) + 1)
        ]

    def value(self, value: Value) -> Value:
        argument, number = _position(value)
        for old, new in reversed(self.pairs):
            if argument:
                if value in list(old.arguments):
                    return new.arguments[number]
                continue
            for a, b in zip(old.operations, new.operations, strict=True):
                if value in list(a.operation.results):
                    return b.operation.results[number]
        raise Unsupported("a value from outside its function")


def _callees(operations: Sequence[ir.Operation]) -> set[str]:
    """Functions that are called, and those that say what a composite operation (top_k) does."""
    inside = [op for top in operations for op in (top, *walk_operations(top))]
    calls = {callee_of(op) for op in inside if op.name == "func.call"}
    composites = [op for op in inside if op.name == "stablehlo.composite"]
    return calls | {ir.FlatSymbolRefAttr(op.attributes["decomposition"]).value for op in composites}


def lift(module: ir.Module, segment: Segment) -> ir.Module:
    """A module whose main function is the segment."""
    with module.context, ir.Location.unknown():
        clone: Any = ir.Module.parse(str(module.operation.get_asm(binary=False)), module.context)
        twin = _Twin(module, clone, segment.path)
        inputs = [twin.value(v) for v in segment.inputs]
        outputs = [twin.value(v) for v in segment.outputs]
        moved = list(_block_at(clone, segment.path).operations)[segment.first : segment.last]
        old = _functions(clone)
        kind = ir.FunctionType.get([v.type for v in inputs], [v.type for v in outputs])
        main = func.FuncOp("segment_main", kind, ip=ir.InsertionPoint(clone.body))
        entry = main.add_entry_block()
        for op in moved:
            entry.append(op)
        for value, argument in zip(inputs, entry.arguments, strict=True):
            value.replace_all_uses_with(argument)
        func.ReturnOp(outputs, ip=ir.InsertionPoint(entry))
        _prune(old, [op.operation for op in moved])
        main.attributes["sym_name"] = ir.StringAttr.get("main")
        return clone


def _functions(module: Any) -> dict[str, Any]:
    return {
        ir.StringAttr(f.operation.attributes["sym_name"]).value: f for f in module.body.operations
    }


def _reachable(functions: dict[str, Any], operations: Sequence[ir.Operation]) -> set[str]:
    wanted: set[str] = set()
    todo = _callees(operations)
    while todo - wanted:
        name = (todo - wanted).pop()
        wanted.add(name)
        todo |= _callees([functions[name].operation])
    return wanted


def _prune(old: dict[str, Any], moved: Sequence[ir.Operation]) -> None:
    wanted = _reachable(old, moved)
    for name, op in old.items():
        if name not in wanted:
            op.operation.erase()
