"""A function with a constant of its own per use, its values numbered anew in order.

Compilers keep one constant for equal numbers. Two numbers that are equal by chance at one size and
not at another would make two functions of the same program look different.
"""

from __future__ import annotations

from dataclasses import replace

from maxkernel.worker.mosaic.syntax import Block, Func, Op, Type

_CONSTANTS = ("arith.constant", "stablehlo.constant")


def constants_apart(func: Func) -> Func:
    """The same function; a constant stands right before the operation that reads it."""
    return _Renumbering(func).run()


class _Renumbering:
    def __init__(self, func: Func) -> None:
        self.func = func
        self.constants = {
            op.results[0]: op
            for op in func.walk()
            if op.name in _CONSTANTS and len(op.results) == 1
        }
        self.numbers: dict[int, int] = {}
        self.types: list[Type] = list(func.types[:1])

    def run(self) -> Func:
        body = self.block(self.func.body)
        return replace(self.func, body=body, types=tuple(self.types))

    def block(self, block: Block) -> Block:
        args = self.defined(block.args)
        ops: list[Op] = []
        for op in block.ops:
            if op.results and op.results[0] in self.constants:
                continue
            operands: list[int] = []
            for value in op.operands:
                constant = self.constants.get(value)
                if constant is not None:
                    ops.append(replace(constant, results=self.defined(constant.results)))
                operands.append(self.numbers[value])
            results = self.defined(op.results)
            regions = tuple(self.block(region) for region in op.regions)
            ops.append(replace(op, operands=tuple(operands), results=results, regions=regions))
        return Block(args, tuple(ops))

    def defined(self, values: tuple[int, ...]) -> tuple[int, ...]:
        """New numbers for values, the latest where a constant is repeated."""
        for value in values:
            self.numbers[value] = len(self.types)
            self.types.append(self.func.types[value])
        return tuple(self.numbers[value] for value in values)
