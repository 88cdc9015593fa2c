"""Whole numbers that are written out as arithmetic."""

from __future__ import annotations

import ast

LARGEST_SHIFT = 62
"""Powers of two and shifts beyond this are left alone: no size in a kernel has them."""


def number_of(node: ast.expr) -> int | None:
    """The value of arithmetic on whole numbers (`48 * 2**20`, `1 << 25`); None for all else."""
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int else None
    if not isinstance(node, ast.BinOp):
        return None
    left, right = number_of(node.left), number_of(node.right)
    if left is None or right is None:
        return None
    match node.op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.FloorDiv():
            return left // right if right else None
        case ast.LShift():
            return left << right if 0 <= right <= LARGEST_SHIFT else None
        case ast.Pow():
            return left**right if left == 2 and 0 <= right <= LARGEST_SHIFT else None
        case _:
            return None
