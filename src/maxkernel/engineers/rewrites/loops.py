"""Rewrites of loops inside kernels."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from maxkernel.engineers.rewrites.edits import Edits, keyword, last_argument
from maxkernel.engineers.rewrites.modules import declared_constants, function_named


def unroll(source: str, factor: int) -> str | None:
    """Every `fori_loop` inside a kernel unrolled `factor` times: iterations overlap."""
    edits = Edits(source)
    for function in edits.functions():
        for call in edits.calls("fori_loop", function):
            given = keyword(call, "unroll")
            if given is None and len(call.args) == 4:
                edits.append(last_argument(call), f", unroll={factor}")
            elif isinstance(given, ast.Constant) and given.value != factor:
                edits.replace(given, str(factor))
    return edits.result()


def whole_blocks(source: str) -> str | None:
    """A chunk becomes its block: `c = min(c, block // 2, ...)` in `kernel` loses the halving, and
    `c` is a constant of `TUNABLES` no more. Multiples among the other caps double.

    One product per block instead of several: the matrix unit loads its weights once.
    """
    edits = Edits(source)
    constants, kernel = declared_constants(edits.tree), function_named(edits.tree, "kernel")
    if constants is None or kernel is None:
        return None
    for node in kernel.body:
        name, caps = _halved(node, [str(n) for n in constants])
        if not caps or not isinstance(node, ast.Assign):
            continue
        if not edits.drop_entry(constants[name]) or not edits.drop_parameter(kernel, name):
            return None
        edits.replace(node.value, caps[0] if len(caps) == 1 else f"min({', '.join(caps)})")
        edits.drop_comments_above(node)
    return edits.result()


def _halved(node: ast.stmt, constants: Sequence[str]) -> tuple[str, list[str]]:
    """The constant c in `c = min(c, block // 2, x * n)`, and the caps at twice their size."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
        return "", []
    call, name = node.value, ast.unparse(node.targets[0])
    if ast.unparse(call.func) != "min" or name not in constants or not call.args:
        return "", []
    first, *others = call.args
    caps = [_twice(cap) for cap in others]
    halves = [cap for cap in caps if cap in constants]
    if ast.unparse(first) != name or "" in caps or not halves:
        return "", []
    return name, caps


def _twice(cap: ast.expr) -> str:
    """x // 2 as x, x * n as x * 2n; empty for what is neither."""
    if not isinstance(cap, ast.BinOp) or not isinstance(cap.right, ast.Constant):
        return ""
    number, left = cap.right.value, ast.unparse(cap.left)
    if isinstance(cap.op, ast.FloorDiv) and number == 2:
        return left
    return f"{left} * {2 * number}" if isinstance(cap.op, ast.Mult) and type(number) is int else ""
