"""Makes tuned constants the defaults of a kernel's source, so that it stands alone."""

from __future__ import annotations

import ast

from maxkernel.parsing import parse
from maxkernel.types import Tunable


def bake(source: str, tunables: dict[str, Tunable]) -> str:
    """`source` with each tuned value first in `TUNABLES` and as default of `kernel`'s argument.

    Only these literals change; everything else stays byte for byte.
    """
    tree = parse(source)
    edits: list[tuple[int, int, str]] = []
    offsets = _line_offsets(source)

    def replace(node: ast.expr, text: str) -> None:
        assert node.end_lineno is not None and node.end_col_offset is not None
        start = offsets[node.lineno - 1] + node.col_offset
        end = offsets[node.end_lineno - 1] + node.end_col_offset
        edits.append((start, end, text))

    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == "kernel":
            for name, default in _defaults(node.args):
                if name in tunables:
                    replace(default, repr(tunables[name]))
        elif isinstance(node, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == "TUNABLES" for t in node.targets
        ):
            assert isinstance(node.value, ast.Dict)
            for key, choices in zip(node.value.keys, node.value.values, strict=True):
                if isinstance(key, ast.Constant) and key.value in tunables:
                    replace(choices, _winner_first(choices, tunables[key.value]))
    data = source.encode()
    for start, end, text in sorted(edits, reverse=True):
        data = data[:start] + text.encode() + data[end:]
    return data.decode()


def _winner_first(choices: ast.expr, winner: Tunable) -> str:
    values = list(ast.literal_eval(choices))
    ordered = [winner, *(v for v in values if v != winner or type(v) is not type(winner))]
    inner = ", ".join(repr(v) for v in ordered)
    return f"({inner},)" if len(ordered) == 1 else f"({inner})"


def _defaults(arguments: ast.arguments) -> list[tuple[str, ast.expr]]:
    positional = [*arguments.posonlyargs, *arguments.args]
    first = len(positional) - len(arguments.defaults)
    found = [(positional[first + i].arg, d) for i, d in enumerate(arguments.defaults)]
    found += [
        (argument.arg, default)
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if default is not None
    ]
    return found


def _line_offsets(source: str) -> list[int]:
    """Byte offset of each line: ast counts columns in UTF-8 bytes."""
    offsets = [0]
    for line in source.encode().split(b"\n"):
        offsets.append(offsets[-1] + len(line) + 1)
    return offsets
