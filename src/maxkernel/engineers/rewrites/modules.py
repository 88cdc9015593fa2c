"""What a kernel's module holds, and additions to it where `ruff` expects them."""

from __future__ import annotations

import ast
import sys

from maxkernel.engineers.rewrites.edits import Entry
from maxkernel.parsing import parse

ALIASES = frozenset({"jax", "jnp", "pl", "pltpu"})
"""Names under which kernels know jax's modules, by custom."""


def usual_names(tree: ast.Module, new: frozenset[str]) -> bool:
    """True when the usual names mean what they usually do, and those to add are free."""
    aliases = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names |= {n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    return aliases >= ALIASES and not names & new


def function_named(tree: ast.Module, name: str) -> ast.FunctionDef | None:
    """The function of that name at the top level."""
    functions = (n for n in tree.body if isinstance(n, ast.FunctionDef))
    return next((f for f in functions if f.name == name), None)


def body_named(tree: ast.Module, given: ast.expr) -> ast.FunctionDef | None:
    """The body that is handed to a `pallas_call` by name, also through `functools.partial`."""
    if isinstance(given, ast.Call) and ast.unparse(given.func).endswith("partial"):
        given = given.args[0] if len(given.args) == 1 else given
    return function_named(tree, ast.unparse(given))


def declared_constants(tree: ast.Module) -> dict[str, Entry] | None:
    """Names in the literal `TUNABLES`, each with its place there; None without such a literal."""
    for node in tree.body:
        named = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "TUNABLES"
        if named and isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            keys = node.value.keys
            if all(isinstance(k, ast.Constant) and isinstance(k.value, str) for k in keys):
                names = [str(k.value) for k in keys if isinstance(k, ast.Constant)]
                return {name: Entry(node.value, place) for place, name in enumerate(names)}
    return None


def with_imports(source: str, *wanted: str) -> str:
    """The source with these imports of the standard library, in the order of `isort`."""
    tree, lines = parse(source), source.splitlines(keepends=True)
    there = [n for n in tree.body if _of_the_library(n)]
    first = next(n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom))
    old = [ast.unparse(n) for n in there]
    text = "".join(f"{line}\n" for line in sorted({*old, *wanted}, key=_import_order))
    if not there:
        return "".join([*lines[: first.lineno - 1], text, "\n", *lines[first.lineno - 1 :]])
    gone = {n for node in there for n in range(node.lineno, (node.end_lineno or 0) + 1)}
    start = there[0].lineno - 1
    kept = [line for number, line in enumerate(lines, 1) if number > start and number not in gone]
    return "".join([*lines[:start], text, *kept])


def with_constants(source: str, *constants: str) -> str:
    """The source with these assignments behind the last one before its first function."""
    tree, lines = parse(source), source.splitlines(keepends=True)
    before: list[ast.stmt] = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            break
        before.append(node)
    last = before[-1]
    end = last.end_lineno or last.lineno
    plain = isinstance(last, ast.Assign) and "TUNABLES" not in ast.unparse(last.targets[0])
    text = ("" if plain else "\n") + "".join(f"{line}\n" for line in constants)
    return "".join([*lines[:end], text, *lines[end:]])


def with_functions(source: str, functions: str) -> str:
    """The source with more functions and classes right before `kernel`."""
    tree, lines = parse(source), source.splitlines(keepends=True)
    kernel = function_named(tree, "kernel")
    if kernel is None:
        return "".join([*lines, "\n\n", functions])
    at = min([kernel.lineno, *(d.lineno for d in kernel.decorator_list)]) - 1
    return "".join([*lines[:at], functions, "\n\n", *lines[at:]])


def _of_the_library(node: ast.stmt) -> bool:
    """An import of the standard library; `from __future__` stays where it is."""
    if isinstance(node, ast.Import):
        return all(a.name.split(".")[0] in sys.stdlib_module_names for a in node.names)
    module = node.module if isinstance(node, ast.ImportFrom) else None
    return (
        module is not None
        and module != "__future__"
        and (module.split(".")[0] in sys.stdlib_module_names)
    )


def _import_order(line: str) -> tuple[bool, str]:
    return line.startswith("from "), line
