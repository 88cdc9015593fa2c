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
        case ast.FloorDiv():
            return left // right if right else None
        case ast.LShift():
            return left << right if 0 <= right <= LARGEST_SHIFT else None
        case ast.Pow():
            return left**right if left == 2 and 0 <= right <= LARGEST_SHIFT else None
        case _:
            return ring(node.op, left, right)


def ring(op: ast.operator, left: int, right: int) -> int | None:
    """A sum, a difference or a product; None for any other operator."""
    match op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case _:
            return None


LOWEST = -1e4
"""What stands for a masked score is below this: its exponential beside any real score is 0."""


def is_lowest(node: ast.expr, tree: ast.Module) -> bool:
    """True for what stands for a masked score: a very negative number, minus infinity, the least
    number of a type, or a constant of the module that is one of these."""
    match node:
        case ast.Name():
            values = [
                n.value
                for n in tree.body
                if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == node.id
            ]
            return len(values) == 1 and is_lowest(values[0], tree)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value <= LOWEST
        case ast.UnaryOp(op=ast.USub()):
            return ast.unparse(node.operand) in ("jnp.inf", "math.inf", "float('inf')")
        case _:
            text = ast.unparse(node)
            return text == "float('-inf')" or ("finfo(" in text and text.endswith(".min"))
