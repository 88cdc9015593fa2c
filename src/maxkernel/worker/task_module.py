"""Imports a task's text, in any of the three formats, as a reference and makers of its inputs."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import importlib.util
import inspect
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import jax.numpy as jnp

from maxkernel.types.task import Task, Tolerance
from maxkernel.worker import seeds
from maxkernel.worker.failures import refuse, task_failure

Maker = Callable[[Any], Any]
"""From a typed PRNG key to what the task's own maker returned: one array or a sequence."""

DEFAULT_TOLERANCE = Tolerance(1e-2, 1e-2, "default")
HARNESS_TOLERANCE = Tolerance(1e-2, 1e-2, "task")
"""JaxBench's harness compares every task with atol = rtol = 0.01."""


@dataclass(frozen=True)
class TaskModule:
    """An imported task. `check` is None where the task gives no check size."""

    task: Task
    reference: Callable[..., Any]
    full: Maker
    check: Maker | None
    tolerance: Tolerance


_loaded: dict[str, TaskModule] = {}
_folder: list[str] = []


def load(task: Task) -> TaskModule:
    """The imported task, from memory when it was the last one.

    Raises Refused: kind `inputs` or `reference`, with the line of the task's file.
    """
    found = _loaded.get(task.digest)
    if found is None:
        _forget()
        seeds.install()
        _unpack(task)
        found = _READERS[task.format](task, _import(task, task.entry))
        _loaded[task.digest] = found
    return found


def _forget() -> None:
    """Drops the previous task with its folder and the modules that came from it."""
    _loaded.clear()
    while _folder:
        folder = _folder.pop()
        sys.path[:] = [path for path in sys.path if path != folder]
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None) or "").startswith(folder):
                del sys.modules[name]
        shutil.rmtree(folder, ignore_errors=True)


def _unpack(task: Task) -> Path:
    """Writes the task's files to a fresh folder, which joins the import path."""
    folder = Path(tempfile.mkdtemp(prefix="task-")).resolve()
    _folder.append(str(folder))
    for name, text in task.files.items():
        path = (folder / name).resolve()
        if not path.is_relative_to(folder):
            refuse("trace", "reference", f"the task's file name {name!r} leaves its folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    sys.path.insert(0, str(folder))
    return folder


def _import(task: Task, name: str) -> ModuleType:
    """The task's file `name` as a module; for the file at fault see the failure."""
    path = Path(_folder[-1]) / name
    spec = importlib.util.spec_from_file_location(f"task_{task.digest[:12]}_{path.stem}", path)
    if spec is None or spec.loader is None:
        refuse("trace", "reference", f"{name} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise task_failure(error, task, "cannot be imported", "reference") from error
    return module


def _function(module: ModuleType, task: Task, name: str, signature: str) -> Callable[..., Any]:
    found = getattr(module, name, None)
    if not callable(found):
        refuse(
            "trace",
            "inputs" if "inputs" in name else "reference",
            f"{task.entry} does not define {signature}",
            "see docs/design.md, Task, for the formats",
        )
    return found


def _ours(task: Task, module: ModuleType) -> TaskModule:
    check = getattr(module, "check_inputs", None)
    return TaskModule(
        task,
        _function(module, task, "reference", "reference(*inputs)"),
        _function(module, task, "inputs", "inputs(key)"),
        check if callable(check) else None,
        _tolerance(getattr(module, "TOLERANCE", None), task, DEFAULT_TOLERANCE),
    )


def _jaxbench(task: Task, module: ModuleType) -> TaskModule:
    create = _function(module, task, "create_inputs", "create_inputs(dtype)")
    options: dict[str, Any] = {}
    if "dtype" in inspect.signature(create).parameters:
        options["dtype"] = jnp.bfloat16  # what JaxBench's own harness asks every task for

    def full(key: Any) -> Any:
        with seeds.fresh(key):
            return create(**options)

    reference = _function(module, task, "workload", "workload(*inputs)")
    return TaskModule(task, reference, full, None, HARNESS_TOLERANCE)


def _google(task: Task, module: ModuleType) -> TaskModule:
    reference = _function(module, task, "computation", "computation(*inputs)")
    made = _import(task, "inputs.py") if "inputs.py" in task.files else module
    get_inputs = _function(made, task, "get_inputs", "get_inputs()")

    def full(key: Any) -> Any:
        with seeds.fresh(key):
            made = get_inputs()
        if not (isinstance(made, tuple | list) and len(cast("Any", made)) == 2):
            raise TypeError("get_inputs() must return (dynamic arguments, static arguments)")
        dynamic, static = cast("tuple[Any, Any]", made)
        return (*dynamic, *static)

    tolerance = _tolerance(getattr(module, "TOLERANCE", None), task, DEFAULT_TOLERANCE)
    return TaskModule(task, reference, full, None, tolerance)


def _tolerance(value: Any, task: Task, default: Tolerance) -> Tolerance:
    if not isinstance(value, dict) or not {"atol", "rtol"} & set(cast("dict[str, Any]", value)):
        return default
    table = cast("dict[str, Any]", value)
    try:
        atol, rtol = float(table.get("atol", 0.0)), float(table.get("rtol", 0.0))
    except (TypeError, ValueError):
        atol = rtol = -1.0
    if not (0 <= atol < float("inf") and 0 <= rtol < float("inf")):
        refuse(
            "trace",
            "inputs",
            f"{task.entry}: TOLERANCE {table!r} needs finite numbers atol >= 0 and rtol >= 0",
        )
    return Tolerance(atol, rtol, "task")


_READERS: dict[str, Callable[[Task, ModuleType], TaskModule]] = {
    "maxkernel": _ours,
    "jaxbench": _jaxbench,
    "maxkernel-google": _google,
}
