"""From a path to a `Task`: find the files, recognise the format, take the digest."""

from __future__ import annotations

import ast
import hashlib
import json
from pathlib import Path
from typing import Any, cast

import yaml

from maxkernel.errors import TaskError, UsageError
from maxkernel.parsing import parse
from maxkernel.types import Task
from maxkernel.types.task import TaskFormat

MAX_TASK_BYTES = 4 << 20
"""A task is source text; anything larger is a mistake."""

_NEEDED: dict[TaskFormat, tuple[str, ...]] = {
    "maxkernel": ("reference", "inputs"),
    "jaxbench": ("workload", "create_inputs"),
    "maxkernel-google": ("computation", "get_inputs"),
}

_FORMATS_HELP = (
    "a task file defines `reference(*inputs)` and `inputs(key)`; JaxBench files "
    "(`workload`, `create_inputs`) and MaxKernel folders (`reference.py` with `computation`, "
    "`kernel_task.yaml`) are read too"
)

_YAML_HEADER = "import jax\nimport jax.numpy as jnp\nimport numpy as np\n\n"


def load_task(path: str | Path) -> Task:
    """The task at a file or folder.

    Raises UsageError when nothing readable is there, TaskError when what is there is no task.
    """
    path = Path(path)
    if not path.exists():
        raise UsageError(f"no task at {path}: the file does not exist")
    if path.is_dir():
        return _load_folder(path)
    if path.suffix != ".py":
        raise UsageError(f"{path} is not a Python file", _FORMATS_HELP)
    if path.name == "reference.py" and (path.parent / "kernel_task.yaml").is_file():
        return _load_folder(path.parent)
    text = _read(path)
    return task_from_text(
        path.stem, _recognise(path, text), path.name, {path.name: text}, str(path)
    )


def task_from_text(
    name: str, format: TaskFormat, entry: str, files: dict[str, str], origin: str = ""
) -> Task:
    """A task from its files; the digest covers format, entry and every file."""
    content = json.dumps([format, entry, sorted(files.items())])
    digest = hashlib.sha256(content.encode()).hexdigest()
    return Task(name=name, format=format, entry=entry, files=files, digest=digest, origin=origin)


def _load_folder(folder: Path) -> Task:
    reference, sheet = folder / "reference.py", folder / "kernel_task.yaml"
    baseline = folder / "baseline.py"
    if baseline.is_file() and not reference.is_file():
        task = load_task(baseline)
        return task_from_text(folder.name, task.format, task.entry, task.files, str(folder))
    if not reference.is_file():
        raise UsageError(f"{folder} has no reference.py or baseline.py", _FORMATS_HELP)
    files = {"reference.py": _read(reference)}
    name = folder.name
    if sheet.is_file():
        values = _read_sheet(sheet)
        name = str(values.get("task_id") or name)
        code = values.get("input_gen_code")
        if isinstance(code, str):
            files["inputs.py"] = _YAML_HEADER + code
    defined = set[str]()
    for file, text in files.items():
        defined |= _defined(folder / file, text)
    missing = [n for n in _NEEDED["maxkernel-google"] if n not in defined]
    if missing:
        raise TaskError(
            f"{folder}: neither reference.py nor kernel_task.yaml defines {_names(missing)}",
            _FORMATS_HELP,
        )
    return task_from_text(name, "maxkernel-google", "reference.py", files, str(folder))


def _read_sheet(sheet: Path) -> dict[str, Any]:
    try:
        values = yaml.safe_load(_read(sheet))
    except yaml.YAMLError as error:
        raise TaskError(f"{sheet}: not valid YAML: {error}") from error
    if not isinstance(values, dict):
        raise TaskError(f"{sheet}: expected keys such as task_id and input_gen_code")
    return cast(dict[str, Any], values)


def _recognise(path: Path, text: str) -> TaskFormat:
    defined = _defined(path, text)
    for format, needed in _NEEDED.items():
        if defined.issuperset(needed):
            return format
    closest = max(_NEEDED.values(), key=lambda needed: len(defined.intersection(needed)))
    missing = [name for name in closest if name not in defined]
    raise TaskError(f"{path}: not a task; it does not define {_names(missing)}", _FORMATS_HELP)


def _defined(path: Path, text: str) -> set[str]:
    """Names that a module defines or imports at top level."""
    try:
        tree = parse(text)
    except SyntaxError as error:
        raise TaskError(f"{path}, line {error.lineno}: {error.msg}") from error
    names = set[str]()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {t.id for t in node.targets if isinstance(t, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            names |= {alias.asname or alias.name for alias in node.names}
    return names


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_TASK_BYTES:
            raise UsageError(f"{path} is larger than {MAX_TASK_BYTES >> 20} MiB: not a task file")
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text") from error
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error


def _names(names: list[str]) -> str:
    return " and ".join(f"`{name}`" for name in names)
