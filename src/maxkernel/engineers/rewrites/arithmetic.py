"""Rewrites of arithmetic inside kernels. The judge's error model decides whether they hold."""

from __future__ import annotations

import ast

from maxkernel.engineers.rewrites.edits import Edits

_REDUCTIONS = ("sum", "max", "min", "mean")


def divide_once(source: str) -> str | None:
    """`a / b` with one b per row becomes a times b's reciprocal: one division per row."""
    edits = Edits(source)
    for function in edits.functions():
        narrow = _narrow_names(function)
        for node in _divisions(function):
            if isinstance(node.right, ast.Name) and node.right.id in narrow:
                _rewrite(edits, node, f"(1.0 / {edits.text(node.right)})")
    return edits.result()


def approximate_reciprocals(source: str) -> str | None:
    """Divisions by the special unit's approximate reciprocal, about 12 bits."""
    edits = Edits(source)
    for function in edits.functions():
        for node in _divisions(function):
            divisor = edits.text(node.right)
            _rewrite(edits, node, f"pl.reciprocal({divisor}, approx=True)")
    return edits.result()


def narrow_activations(source: str) -> str | None:
    """Helpers of one argument that call transcendental functions compute in bfloat16."""
    edits = Edits(source)
    helpers = {f.name for f in edits.functions() if _is_activation(f)}
    for function in edits.functions():
        if function.name in helpers:
            continue
        inner = {id(c.args[0]) for c in _calls_of(function, helpers)}
        for call in _calls_of(function, helpers):
            if not _calls_one(call.args[0], helpers):
                edits.wrap(call.args[0], "(", ").astype(jnp.bfloat16)")
            if id(call) not in inner:
                edits.append(call, ".astype(jnp.float32)")
    return edits.result()


def _divisions(function: ast.FunctionDef) -> list[ast.BinOp]:
    return [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Div)
        and not isinstance(node.right, ast.Constant)
    ]


def _rewrite(edits: Edits, node: ast.BinOp, factor: str) -> None:
    """Replaces a division by a product, unless it stands inside one that is replaced already."""
    if edits.overlaps(node):
        return
    left = edits.text(node.left)
    loose = isinstance(node.left, ast.BinOp) and isinstance(node.left.op, ast.Add | ast.Sub)
    edits.replace(node, f"({left}) * {factor}" if loose else f"{left} * {factor}")


def _narrow_names(function: ast.FunctionDef) -> set[str]:
    """Names that hold a reduction with `keepdims=True`, or arithmetic on such names alone."""
    narrow: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            value = node.value
            if isinstance(value, ast.Call) and _keeps_dims(value):
                narrow.add(node.targets[0].id)
    return narrow


def _keeps_dims(call: ast.Call) -> bool:
    name = ast.unparse(call.func).split(".")[-1]
    return name in _REDUCTIONS and any(
        k.arg == "keepdims" and isinstance(k.value, ast.Constant) and k.value.value is True
        for k in call.keywords
    )


def _is_activation(function: ast.FunctionDef) -> bool:
    arguments = function.args
    if len(arguments.args) != 1 or arguments.kwonlyargs or arguments.args[0].arg.endswith("_ref"):
        return False
    names = {
        ast.unparse(n.func).split(".")[-1] for n in ast.walk(function) if isinstance(n, ast.Call)
    }
    return bool(names & {"exp", "tanh", "log", "log1p", "logistic", "sigmoid"})


def _calls_of(function: ast.FunctionDef, names: set[str]) -> list[ast.Call]:
    return [n for n in ast.walk(function) if isinstance(n, ast.Call) and _calls_one(n, names)]


def _calls_one(node: ast.expr, names: set[str]) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in names
        and len(node.args) == 1
    )
