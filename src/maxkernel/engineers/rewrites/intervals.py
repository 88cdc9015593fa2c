"""Masks made of comparisons of positions: when may a block hold an element that they let through?

Positions are sums of whole numbers and iotas. An iota over n elements lies between 0 and n - 1, so
a sum lies between bounds that are arithmetic on scalars; a comparison can only hold somewhere if
it holds for the bounds that favour it.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

_ORDER: dict[type[ast.cmpop], str] = {
    ast.Gt: ">", ast.GtE: ">=", ast.Lt: "<", ast.LtE: "<=",
}  # fmt: skip
_TOP = ("program_id", "num_programs", "cdiv")


@dataclass(frozen=True)
class Bounds:
    """The least and the greatest value, as source."""

    low: str
    high: str


@dataclass(frozen=True)
class Scope:
    """What is known of the names at some place."""

    values: Mapping[str, ast.expr]
    """What names are set to, once each."""
    scalars: frozenset[str]
    """Names of whole numbers that are given."""

    def is_scalar(self, node: ast.expr) -> bool:
        """True for arithmetic on whole numbers that the source shows to be some."""
        match node:
            case ast.Constant():
                return type(node.value) is int
            case ast.Name():
                value = self.values.get(node.id)
                return node.id in self.scalars or (value is not None and self.is_scalar(value))
            case ast.BinOp():
                return self.is_scalar(node.left) and self.is_scalar(node.right)
            case ast.UnaryOp():
                return self.is_scalar(node.operand)
            case ast.Call():
                known = ast.unparse(node.func).split(".")[-1] in _TOP and not node.keywords
                return known and all(self.is_scalar(a) for a in node.args)
            case ast.Subscript(value=ast.Attribute(attr="shape")):
                return True
            case _:
                return False


def possible(mask: ast.expr, scope: Scope) -> str | None:
    """A condition on scalars that holds wherever the mask is true for some element; None where
    nothing can be said."""
    match mask:
        case ast.Name():
            value = scope.values.get(mask.id)
            return possible(value, scope) if value is not None else None
        case ast.BinOp(op=ast.BitAnd()):
            return _both(mask.left, mask.right, scope)
        case ast.BinOp(op=ast.BitOr()):
            return _either(mask.left, mask.right, scope)
        case ast.Call(args=[one, two]) if ast.unparse(mask.func).endswith("logical_and"):
            return _both(one, two, scope)
        case ast.Call(args=[one, two]) if ast.unparse(mask.func).endswith("logical_or"):
            return _either(one, two, scope)
        case ast.Compare(ops=[op], comparators=[other]):
            left, right = bounds(mask.left, scope), bounds(other, scope)
            if left is None or right is None or type(op) not in _ORDER:
                return None
            sign = _ORDER[type(op)]
            up = sign in (">", ">=")
            ends = (left.high, right.low) if up else (left.low, right.high)
            return f"{ends[0]} {sign} {ends[1]}"
        case _:
            return None


def bounds(node: ast.expr, scope: Scope) -> Bounds | None:
    """The bounds of a position; None for what is none."""
    if scope.is_scalar(node):
        text = ast.unparse(node)
        return Bounds(text, text)
    match node:
        case ast.Name():
            value = scope.values.get(node.id)
            return bounds(value, scope) if value is not None else None
        case ast.BinOp(op=ast.Add() | ast.Sub()):
            left, right = bounds(node.left, scope), bounds(node.right, scope)
            if left is None or right is None:
                return None
            if isinstance(node.op, ast.Add):
                return Bounds(_add(left.low, right.low), _add(left.high, right.high))
            return Bounds(_less(left.low, right.high), _less(left.high, right.low))
        case ast.Subscript(value=inner, slice=ast.Tuple()):
            return bounds(inner, scope)
        case ast.Call():
            size = _counted(node)
            return Bounds("0", _less(size, "1")) if size else None
        case _:
            return None


def _counted(call: ast.Call) -> str:
    """How many numbers an iota counts along its axis; empty for another call."""
    name, args = ast.unparse(call.func).split(".")[-1], call.args
    if name == "arange" and len(args) == 1:
        return ast.unparse(args[0])
    axis = args[2] if len(args) == 3 else None
    named = next((k.value for k in call.keywords if k.arg in ("dimension", "axis")), axis)
    if name not in ("broadcasted_iota", "iota") or not isinstance(named, ast.Constant):
        return ""
    if len(args) < 2 or type(named.value) is not int:
        return ""
    shape = args[1]
    if isinstance(shape, ast.Tuple) and named.value < len(shape.elts):
        return ast.unparse(shape.elts[named.value])
    return f"{ast.unparse(shape)}[{named.value}]" if not isinstance(shape, ast.Tuple) else ""


def _both(one: ast.expr, two: ast.expr, scope: Scope) -> str | None:
    found = [c for c in (possible(one, scope), possible(two, scope)) if c is not None]
    return " & ".join(f"({c})" for c in found) if len(found) == 2 else next(iter(found), None)


def _either(one: ast.expr, two: ast.expr, scope: Scope) -> str | None:
    found = [c for c in (possible(one, scope), possible(two, scope)) if c is not None]
    return " | ".join(f"({c})" for c in found) if len(found) == 2 else None


def _add(left: str, right: str) -> str:
    return right if left == "0" else left if right == "0" else f"{left} + {right}"


def _less(left: str, right: str) -> str:
    if right == "0":
        return left
    return f"{left} - {right}" if right.isidentifier() or right.isdigit() else f"{left} - ({right})"
