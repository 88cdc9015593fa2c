"""References rewritten but equal: as text, so that what is judged is what a person might write."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Sequence

from maxkernel.tasks import task_from_text
from maxkernel.types import Task

ENTRY = "reference"


class _Rename(ast.NodeTransformer):
    """Gives every parameter and local name of the functions that it visits another name."""

    def __init__(self, names: set[str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        if node.id in self.names:
            node.id = f"z_{len(node.id)}_{node.id[::-1]}"
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        if node.arg in self.names:
            node.arg = f"z_{len(node.arg)}_{node.arg[::-1]}"
        return node


class _Commute(ast.NodeTransformer):
    """Exchanges the operands of + and *, but of shapes and other tuples, whose order matters."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.BinOp:
        self.generic_visit(node)
        plain = not any(
            isinstance(part, ast.Tuple | ast.List) or _is_shape(part)
            for side in (node.left, node.right)
            for part in ast.walk(side)
        )
        if plain and isinstance(node.op, ast.Add | ast.Mult):
            node.left, node.right = node.right, node.left
        return node


class _Inline(ast.NodeTransformer):
    """Writes out module constants that are numbers."""

    def __init__(self, values: dict[str, ast.Constant]) -> None:
        self.values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        found = self.values.get(node.id) if isinstance(node.ctx, ast.Load) else None
        return ast.copy_location(ast.Constant(found.value), node) if found else node


def _is_shape(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "shape"


def _reference(tree: ast.Module) -> ast.FunctionDef:
    return next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == ENTRY)


def _local_names(function: ast.FunctionDef) -> set[str]:
    stored = {
        n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    return stored | {a.arg for a in ast.walk(function) if isinstance(a, ast.arg)}


def renamed(tree: ast.Module) -> None:
    """Another name for every parameter and local variable of the reference."""
    function = _reference(tree)
    keywords = {k.arg for k in ast.walk(function) if isinstance(k, ast.keyword)}
    _Rename(_local_names(function) - keywords).visit(function)


def commuted(tree: ast.Module) -> None:
    """a + b becomes b + a, a * b becomes b * a."""
    _Commute().visit(_reference(tree))


def inlined(tree: ast.Module) -> None:
    """EPS = 1e-5 becomes 1e-5 where the reference uses it."""
    values = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name) and isinstance(node.value.value, int | float)
    }
    _Inline(values).visit(_reference(tree))


_JITTED = """
import jax

def reference(*given):
    places = [i for i, x in enumerate(given) if hasattr(x, "dtype")]

    def inner(*arrays):
        whole = list(given)
        for place, array in zip(places, arrays):
            whole[place] = array
        return _inner_reference(*whole)

    return jax.jit(inner)(*(given[i] for i in places))
"""
_MAPPED = """
import jax

def reference(*given):
    def one(*slices):
        whole = list(given)
        for place, part in zip(PLACES, slices):
            whole[place] = part[None]
        return jax.tree.map(lambda result: result[0], _inner_reference(*whole))

    return jax.vmap(one)(*(given[i] for i in PLACES))
"""


def jitted(tree: ast.Module) -> None:
    """The reference calls its old self through jax.jit; arguments that are no arrays stay so."""
    _reference(tree).name = "_inner_reference"
    tree.body += ast.parse(_JITTED).body


def mapped(places: Sequence[int]) -> Callable[[ast.Module], None]:
    """The reference is its old self on batches of one, mapped over the first dimension of the
    arguments at `places`. Whether that is equal has to be found out."""

    def change(tree: ast.Module) -> None:
        _reference(tree).name = "_inner_reference"
        tree.body += ast.parse(f"PLACES = {tuple(places)}\n{_MAPPED}").body

    return change


REWRITINGS: dict[str, Callable[[ast.Module], None]] = {
    "renamed": renamed,
    "commuted": commuted,
    "inlined": inlined,
    "jitted": jitted,
}


def rewritten(task: Task, change: Callable[[ast.Module], None]) -> Task:
    """The task with its reference rewritten."""
    tree = copy.deepcopy(ast.parse(task.files[task.entry]))
    change(tree)
    text = ast.unparse(ast.fix_missing_locations(tree)) + "\n"
    return task_from_text(task.name, task.format, task.entry, {task.entry: text}, task.origin)
