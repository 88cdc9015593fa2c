"""Signatures and docstrings from parsed source."""

from __future__ import annotations

import ast
import inspect

Definition = ast.FunctionDef | ast.ClassDef | ast.Assign

_DEFAULT_LIMIT = 40
"""Longer default values are shown as `...`."""


def definition(module: ast.Module, name: str) -> Definition | None:
    """The last top-level definition of `name`: overloads come before the real one."""
    found: Definition | None = None
    for node in module.body:
        named = isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name
        assigned = isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == name for target in node.targets
        )
        if named or assigned:
            assert isinstance(node, Definition)
            found = node
    return found


def docstring(node: Definition) -> str:
    """The docstring, with its indentation removed; empty where there is none."""
    if isinstance(node, ast.Assign):
        return ""
    return inspect.cleandoc(ast.get_docstring(node) or "")


def signature(node: Definition, public: str) -> str:
    """`public(a, b=1, *, c)`: how one calls it. Enum members for an enum, the value otherwise."""
    if isinstance(node, ast.Assign):
        return f"{public} = {ast.unparse(node.value)}"
    if isinstance(node, ast.FunctionDef):
        return f"{public}({_arguments(node.args)})"
    bases = {ast.unparse(base) for base in node.bases}
    if any(base.endswith("Enum") for base in bases):
        return f"{public}: {', '.join(_members(node))}"
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and item.name == "__init__":
            return f"{public}({_arguments(item.args, skip=1)})"
    return f"{public}({_fields(node)})"


def _arguments(arguments: ast.arguments, skip: int = 0) -> str:
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(plain) - len(arguments.defaults)) + list(arguments.defaults)
    parts = [_one(a.arg, d) for a, d in zip(plain, defaults, strict=True)][skip:]
    if arguments.vararg:
        parts.append(f"*{arguments.vararg.arg}")
    elif arguments.kwonlyargs:
        parts.append("*")
    for keyword, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        parts.append(_one(keyword.arg, default))
    if arguments.kwarg:
        parts.append(f"**{arguments.kwarg.arg}")
    return ", ".join(parts)


def _one(name: str, default: ast.expr | None) -> str:
    if default is None:
        return name
    text = ast.unparse(default)
    return f"{name}={text if len(text) <= _DEFAULT_LIMIT else '...'}"


def _fields(node: ast.ClassDef) -> str:
    """Fields of a dataclass as its generated `__init__` takes them."""
    plain: list[str] = []
    keywords: list[str] = []
    for item in node.body:
        if not (isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)):
            continue
        value = item.value
        if isinstance(value, ast.Call) and ast.unparse(value.func).endswith("field"):
            options = {k.arg: ast.unparse(k.value) for k in value.keywords}
            if options.get("init") == "False":
                continue
            default = options.get("default", "..." if "default_factory" in options else "")
            text = f"{item.target.id}={default}" if default else item.target.id
            (keywords if options.get("kw_only") == "True" else plain).append(text)
        else:
            plain.append(_one(item.target.id, value))
    return ", ".join([*plain, *(["*", *keywords] if keywords else [])])


def _members(node: ast.ClassDef) -> list[str]:
    return [
        target.id
        for item in node.body
        if isinstance(item, ast.Assign)
        for target in item.targets
        if isinstance(target, ast.Name)
    ]
