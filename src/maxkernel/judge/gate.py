"""The first gate: a candidate's Python is held to an allow-list of syntax, names and imports.

It is not the sandbox and does not replace it. It keeps the common tricks (patching jax, reading
the harness, calling the host) from running at all, and tells an honest author which line to change.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from maxkernel.types import Failure

_ANY = frozenset({"*"})

MODULES: dict[str, frozenset[str]] = {
    "jax": frozenset(
        "Array ShapeDtypeStruct checkpoint custom_jvp custom_vjp dtypes eval_shape experimental "
        "grad jit lax linearize named_scope nn numpy remat tree tree_util typing value_and_grad "
        "vjp jvp vmap".split()
    ),
    "jax.dtypes": _ANY,
    "jax.experimental": frozenset({"pallas"}),
    "jax.experimental.pallas": _ANY,
    "jax.experimental.pallas.tpu": _ANY,
    "jax.lax": _ANY,
    "jax.nn": _ANY,
    "jax.numpy": _ANY,
    "jax.tree": _ANY,
    "jax.tree_util": _ANY,
    "jax.typing": _ANY,
    "collections.abc": _ANY,
    "dataclasses": frozenset({"dataclass", "field", "replace"}),
    "enum": frozenset({"Enum", "IntEnum"}),
    "functools": frozenset({"cache", "lru_cache", "partial", "reduce"}),
    "itertools": _ANY,
    "math": _ANY,
    "operator": _ANY,
    "typing": frozenset(
        "Any Callable Final Generic Literal NamedTuple Optional Protocol Sequence Tuple TypeVar "
        "Union cast".split()
    ),
    "__future__": _ANY,
}
"""Modules that a candidate may import, and the names it may take from each."""

_DENIED_MEMBERS = frozenset(
    "load save savez savez_compressed fromfile fromregex loadtxt genfromtxt attrgetter "
    "methodcaller debug_print pure_callback io_callback infeed outfeed core lower_as_mlir "
    "pallas_export_experimental".split()
)
"""Members of allowed modules that reach files, the host, or jax's own modules.

`functools.wraps` is left out above: it copies one object's attributes into another, which may be a
module. Primitives (`lax.add_p`) are refused by their ending: their methods change jax's rules.
"""

_DENIED_NAMES = frozenset(
    "__builtins__ __import__ __loader__ __spec__ breakpoint compile delattr dir eval exec exit "
    "getattr globals help input locals memoryview open quit setattr vars".split()
)

_SPECIAL_METHODS = frozenset({"__init__", "__post_init__", "__call__"})


def check_gate(tree: ast.Module) -> Failure | None:
    """The first thing in a module that a candidate may not use."""
    nodes = list(ast.walk(tree))
    modules = _module_names(nodes)
    own = _own_attributes(nodes)
    for node in nodes:
        for line, message in _faults(node, modules, own):
            return Failure(
                stage="capture",
                kind="forbidden",
                message=f"line {line}: {message}",
                advice="a kernel needs jax, jax.numpy, jax.lax, pallas, functools and math only",
                line=line,
            )
    return None


def _faults(
    node: ast.AST, modules: dict[str, str], own: frozenset[ast.AST]
) -> Iterator[tuple[int, str]]:
    match node:
        case ast.Import():
            for alias in node.names:
                if alias.name not in MODULES:
                    yield node.lineno, f"import of {alias.name}"
        case ast.ImportFrom():
            yield from _from_faults(node)
        case ast.Attribute():
            yield from _attribute_faults(node, modules, node in own)
        case ast.Name():
            if node.id in _DENIED_NAMES or (_is_dunder(node.id) and node.id != "__name__"):
                yield node.lineno, f"use of {node.id}"
        case ast.FunctionDef() | ast.ClassDef():
            if _is_dunder(node.name) and node.name not in _SPECIAL_METHODS:
                yield node.lineno, f"definition of {node.name}"
        case ast.AsyncFunctionDef() | ast.Await() | ast.AsyncFor() | ast.AsyncWith():
            yield node.lineno, "asynchronous code"
        case _:
            return


def _from_faults(node: ast.ImportFrom) -> Iterator[tuple[int, str]]:
    module = node.module or ""
    allowed = MODULES.get(module)
    if node.level or allowed is None:
        yield node.lineno, f"import from {'.' * node.level}{module}"
        return
    for alias in node.names:
        if not _may_take(module, alias.name) or alias.name == "*":
            yield node.lineno, f"import of {module}.{alias.name}"


def _attribute_faults(
    node: ast.Attribute, modules: dict[str, str], own: bool
) -> Iterator[tuple[int, str]]:
    if node.attr.startswith("_"):
        yield node.lineno, f"use of the private attribute {node.attr}"
    owner = _module_of(node.value, modules)
    if owner is not None and not _may_take(owner, node.attr):
        yield node.lineno, f"use of {owner}.{node.attr}"
    if not isinstance(node.ctx, ast.Load) and not own:
        yield node.lineno, f"assignment to the attribute {ast.unparse(node)}"


def _own_attributes(nodes: Sequence[ast.AST]) -> frozenset[ast.AST]:
    """The `self.x` of special methods, which Python itself calls, with a fresh or own instance.

    Another method can be called with a module in the place of `self`.
    """
    return frozenset(
        node
        for kind in nodes
        if isinstance(kind, ast.ClassDef)
        for method in kind.body
        if isinstance(method, ast.FunctionDef) and _keeps_self(method)
        for node in ast.walk(method)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    )


def _keeps_self(method: ast.FunctionDef) -> bool:
    """Whether `self` means the instance everywhere in a special method."""
    first = [*method.args.posonlyargs, *method.args.args][:1]
    if method.name not in _SPECIAL_METHODS or method.decorator_list:
        return False
    names = [node.arg for node in ast.walk(method) if isinstance(node, ast.arg)]
    stores = [n.id for n in ast.walk(method) if isinstance(n, ast.Name) and _is_stored(n)]
    return [a.arg for a in first] == ["self"] and [*names, *stores].count("self") == 1


def _is_stored(name: ast.Name) -> bool:
    return not isinstance(name.ctx, ast.Load)


def _may_take(module: str, name: str) -> bool:
    allowed = MODULES.get(module)
    if allowed is None or name.startswith("_") or name.endswith("_p") or name in _DENIED_MEMBERS:
        return False
    return allowed is _ANY or name in allowed


def _module_of(node: ast.expr, modules: dict[str, str]) -> str | None:
    """The module that an expression names, as far as imports tell."""
    if isinstance(node, ast.Name):
        return modules.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = _module_of(node.value, modules)
        inner = f"{owner}.{node.attr}"
        return inner if owner is not None and inner in MODULES else None
    return None


def _module_names(nodes: Sequence[ast.AST]) -> dict[str, str]:
    """Local names of modules, by import statement."""
    names: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                local = alias.asname or alias.name.partition(".")[0]
                names[local] = alias.name if alias.asname else local
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in MODULES:
                    names[alias.asname or alias.name] = inner
    return names


def _is_dunder(name: str) -> bool:
    return name.startswith("__")
