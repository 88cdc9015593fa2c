"""Reads a candidate without running it: does it parse, is `kernel` there, which tunables."""

from __future__ import annotations

import ast
from functools import lru_cache
from typing import Any, cast

from maxkernel.judge.gate import check_gate
from maxkernel.parsing import parse
from maxkernel.types import Failure, Tunable, TunableSpace

MAX_SOURCE_BYTES = 1 << 20

REMEMBERED = 512
"""Sources whose reading is kept: one design is read for every assignment of its constants."""


def read_source(source: str) -> TunableSpace | Failure:
    """The space of tunables that a candidate declares, or why its source is unusable."""
    found = _read(source)
    return found if isinstance(found, Failure) else dict(found)


@lru_cache(REMEMBERED)
def _read(source: str) -> TunableSpace | Failure:
    if len(source.encode(errors="replace")) > MAX_SOURCE_BYTES:
        return _failure(f"the source is larger than {MAX_SOURCE_BYTES >> 20} MiB", None)
    try:
        tree = parse(source)
    except (SyntaxError, ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        return _failure(f"not valid Python: {getattr(error, 'msg', error)}", line)
    forbidden = check_gate(tree)
    if forbidden is not None:
        return forbidden
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    names = functions | {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    if "kernel" not in names:
        return _failure(
            "no function `kernel` at top level",
            None,
            "define `kernel(*inputs, **tunables)`: it takes the task's inputs by position",
        )
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and _is_tunables(node):
            return _space(node)
    return {}


def _is_tunables(node: ast.Assign | ast.AnnAssign) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return any(isinstance(t, ast.Name) and t.id == "TUNABLES" for t in targets)


def _space(node: ast.Assign | ast.AnnAssign) -> TunableSpace | Failure:
    advice = (
        'write it as a literal: TUNABLES = {"block_rows": (256, 128)}; the first is the default'
    )
    try:
        value = ast.literal_eval(node.value) if node.value is not None else None
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return _failure("TUNABLES is not a literal", node.lineno, advice)
    if not isinstance(value, dict):
        return _failure("TUNABLES is not a dict", node.lineno, advice)
    space: TunableSpace = {}
    for name, choices in cast(dict[Any, Any], value).items():
        if not isinstance(name, str) or not name.isidentifier():
            return _failure(f"tunable name {name!r} is not an identifier", node.lineno, advice)
        if not isinstance(choices, tuple | list) or not choices:
            return _failure(f"tunable {name!r} has no choices", node.lineno, advice)
        choices = cast(tuple[Any, ...] | list[Any], choices)
        for choice in choices:
            if not isinstance(choice, int | float | bool | str):
                return _failure(
                    f"tunable {name!r}: {choice!r} is no number, bool or string",
                    node.lineno,
                    advice,
                )
        space[name] = tuple(cast(list[Tunable], choices))
    return space


def _failure(message: str, line: int | None, advice: str = "") -> Failure:
    return Failure(stage="capture", kind="syntax", message=message, advice=advice, line=line)
