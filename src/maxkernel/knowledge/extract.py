"""Reads the installed jax as text: Pallas signatures, docstrings, error texts, supported ops.

jax is never imported: its source files are parsed. So the knowledge is that of the very version
that kernels are compiled with, and reading it costs neither start-up time nor trust.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import msgspec

from maxkernel.errors import EnvironmentFault
from maxkernel.knowledge.signature import definition, docstring, signature
from maxkernel.parsing import parse

PUBLIC = {
    "pl": "experimental/pallas/__init__.py",
    "pltpu": "experimental/pallas/tpu.py",
}
"""Public module of each customary alias, relative to the jax folder."""

ERROR_FILES = (
    "_src/pallas/core.py",
    "_src/pallas/pallas_call.py",
    "_src/pallas/primitives.py",
    "_src/pallas/mosaic/core.py",
    "_src/pallas/mosaic/lowering.py",
    "_src/pallas/mosaic/pallas_call_registration.py",
    "_src/pallas/mosaic/primitives.py",
    "_src/pallas/mosaic/pipeline.py",
)

_LOWERING = "_src/pallas/mosaic/lowering.py"


class Name(msgspec.Struct, frozen=True):
    """One public name of Pallas as the installed jax defines it."""

    name: str
    """With its customary alias: `pl.BlockSpec`."""
    signature: str
    """As one would call it; the value of a constant; empty where it cannot be read."""
    doc: str = ""
    deprecated: str = ""
    """jax's own words, for names that still work but go away."""


class ErrorText(msgspec.Struct, frozen=True):
    """A message that the installed jax raises; `{...}` stands for what it fills in."""

    where: str
    """File and function."""
    kind: str
    """Exception class."""
    text: str


class Extract(msgspec.Struct, frozen=True):
    """What the source of one jax installation says about Pallas on TPU."""

    version: str
    names: tuple[Name, ...]
    errors: tuple[ErrorText, ...]
    primitives: tuple[str, ...]
    """Names of the primitives that have a TensorCore lowering: what a kernel body may use."""


def jax_folder(python: str = sys.executable) -> Path:
    """Folder of the jax package that `python` would import; raises EnvironmentFault without one."""
    if python == sys.executable:
        spec = importlib.util.find_spec("jax")
        found = spec.origin if spec else None
    else:
        code = "import importlib.util as u; s = u.find_spec('jax'); print(s.origin if s else '')"
        done = subprocess.run(
            [python, "-I", "-c", code], capture_output=True, text=True, timeout=60, check=False
        )
        found = done.stdout.strip()
    if not found:
        raise EnvironmentFault(f"{python} has no jax", "install maxkernel with its dependencies")
    return Path(found).parent


def version_of(folder: Path) -> str:
    """The version of the jax in `folder`, read from its version.py; `unknown` if it has none."""
    match = re.search(r'^_version = "([^"]+)"', _text(folder / "version.py"), re.MULTILINE)
    return match.group(1) if match else "unknown"


def extract(folder: Path) -> Extract:
    """Everything that is read from one jax folder. Takes about two seconds."""
    modules: dict[str, ast.Module] = {}
    names: list[Name] = []
    for alias, path in PUBLIC.items():
        names += _names(folder, alias, _parse(folder / path, modules), modules)
    errors = [error for path in ERROR_FILES for error in _errors(folder / path, modules)]
    return Extract(
        version=version_of(folder),
        names=tuple(sorted(names, key=lambda name: name.name)),
        errors=tuple({error.text: error for error in errors}.values()),
        primitives=_primitives(_parse(folder / _LOWERING, modules)),
    )


def _text(path: Path) -> str:
    return path.read_text() if path.is_file() else ""


def _parse(path: Path, modules: dict[str, ast.Module]) -> ast.Module:
    key = str(path)
    if key not in modules:
        modules[key] = parse(_text(path))
    return modules[key]


def _names(
    folder: Path, alias: str, public: ast.Module, modules: dict[str, ast.Module]
) -> list[Name]:
    found: dict[str, Name] = {}
    for node in public.body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("jax."):
            module = _parse(_file(folder, node.module), modules)
            for item in node.names:
                public_name = item.asname or item.name
                if not public_name.startswith("_"):
                    found[public_name] = _describe(f"{alias}.{public_name}", item.name, module)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            target = node.targets[0].id
            if target == "_deprecations":
                found |= _deprecated(alias, node.value)
            elif target.isupper():
                value = ast.unparse(node.value)
                found[target] = Name(f"{alias}.{target}", f"{alias}.{target} = {value}")
    return list(found.values())


def _file(folder: Path, module: str) -> Path:
    path = folder.joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _describe(public: str, name: str, module: ast.Module) -> Name:
    node = definition(module, name)
    return Name(public, signature(node, public) if node else "", docstring(node) if node else "")


def _deprecated(alias: str, value: ast.expr) -> dict[str, Name]:
    """jax keeps `_deprecations = {name: (message, value)}` in its public modules."""
    found: dict[str, Name] = {}
    if not isinstance(value, ast.Dict):
        return found
    for key, entry in zip(value.keys, value.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(entry, ast.Tuple):
            message = entry.elts[0]
            words = message.value if isinstance(message, ast.Constant) else ast.unparse(message)
            found[str(key.value)] = Name(f"{alias}.{key.value}", "", deprecated=str(words))
    return found


def _errors(path: Path, modules: dict[str, ast.Module]) -> list[ErrorText]:
    found: list[ErrorText] = []
    for function in ast.walk(_parse(path, modules)):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in ast.walk(function):
            if not (isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)):
                continue
            text = " ".join(_template(arg) for arg in node.exc.args).strip()
            if len(text) > 20:
                where = f"{path.name}, {function.name}"
                found.append(ErrorText(where, ast.unparse(node.exc.func), text))
    return found


def _template(node: ast.expr) -> str:
    """The text of a string expression, with `{...}` where values are filled in."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(part.value) if isinstance(part, ast.Constant) else "{...}" for part in node.values
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _template(node.left) + _template(node.right)
    return "{...}"


def _primitives(lowering: ast.Module) -> tuple[str, ...]:
    """First arguments of `register_lowering_rule(...)`: what TensorCore kernels may use."""
    loops = {
        node.target.id: node.iter
        for node in lowering.body
        if isinstance(node, ast.For) and isinstance(node.target, ast.Name)
    }
    found: set[str] = set()
    for node in ast.walk(lowering):
        if isinstance(node, ast.Call) and _called(node) == "register_lowering_rule":
            first = node.args[0]
            several = loops.get(first.id) if isinstance(first, ast.Name) else None
            for item in several.elts if isinstance(several, ast.List) else [first]:
                found.add(ast.unparse(item).split(".")[-1].removesuffix("_p"))
    return tuple(sorted(found))


def _called(call: ast.Call) -> str:
    return ast.unparse(call.func).split(".")[-1]
