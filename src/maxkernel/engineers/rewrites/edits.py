"""Edits of a kernel's source at nodes of its syntax tree; everything else stays as it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from maxkernel.parsing import parse


@dataclass(frozen=True)
class Entry:
    """One item of a dictionary that is written out."""

    within: ast.Dict
    place: int


class Edits:
    """A source, its tree, and replacements that wait to be made."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.tree = parse(source)
        self._offsets = [0]
        for line in source.encode().split(b"\n"):
            self._offsets.append(self._offsets[-1] + len(line) + 1)
        self._edits: list[tuple[int, int, str]] = []

    def text(self, node: ast.expr) -> str:
        """The node as it is written."""
        start, end = self._span(node)
        return self.source.encode()[start:end].decode()

    def replace(self, node: ast.expr, text: str) -> None:
        """Writes `text` in place of a node. Nodes that are replaced must not overlap."""
        self._edits.append((*self._span(node), text))

    def append(self, node: ast.expr, text: str) -> None:
        """Writes `text` right behind a node."""
        _, end = self._span(node)
        self._edits.append((end, end, text))

    def wrap(self, node: ast.expr, before: str, after: str) -> None:
        """Writes text on both sides of a node."""
        start, end = self._span(node)
        self._edits += [(start, start, before), (end, end, after)]

    def drop_entry(self, entry: Entry) -> bool:
        """Removes one of several items of a dictionary; False where it is the only one."""
        keys = [key for key in entry.within.keys if key is not None]
        return self._drop(list(zip(keys, entry.within.values, strict=True)), entry.place)

    def drop_parameter(self, function: ast.FunctionDef, name: str) -> bool:
        """Removes one of several keyword-only parameters with defaults; False where it is none
        or the only one."""
        given = list(zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True))
        pairs = [(arg, default) for arg, default in given if default is not None]
        names = [arg.arg for arg, _ in pairs]
        return name in names and self._drop(pairs, names.index(name))

    def add_parameters(self, function: ast.FunctionDef, *names: str) -> None:
        """Adds keyword-only parameters without defaults behind a function's last parameter."""
        given = function.args
        known = [*given.args, *given.kwonlyargs]
        last = max([*known, *(d for d in given.kw_defaults if d is not None)], key=_place)
        end = self._span(last)[1]
        text = ", ".join(names) if given.kwonlyargs else f"*, {', '.join(names)}"
        self._edits.append((end, end, f", {text}"))

    def _drop(self, pairs: Sequence[tuple[ast.expr | ast.arg, ast.expr]], place: int) -> bool:
        """Removes one of several pairs that stand in a row, with the comma before or behind it."""
        if len(pairs) < 2:
            return False
        if place + 1 < len(pairs):
            start, end = self._span(pairs[place][0])[0], self._span(pairs[place + 1][0])[0]
        else:
            start, end = self._span(pairs[place - 1][1])[1], self._span(pairs[place][1])[1]
        self._edits.append((start, end, ""))
        return True

    def drop_comments_above(self, node: ast.stmt) -> None:
        """Removes the comment lines right above a statement, which speak of what it was."""
        lines = self.source.encode().split(b"\n")
        first = node.lineno - 1
        while first > 0 and lines[first - 1].lstrip().startswith(b"#"):
            first -= 1
        self._edits.append((self._offsets[first], self._offsets[node.lineno - 1], ""))

    def overlaps(self, node: ast.expr) -> bool:
        """True when some replacement touches this node."""
        start, end = self._span(node)
        return any(a < end and start < b for a, b, _ in self._edits)

    def result(self) -> str | None:
        """The edited source; None when nothing was to be edited or the result does not parse."""
        if not self._edits:
            return None
        data = self.source.encode()
        for start, end, text in sorted(self._edits, reverse=True):
            data = data[:start] + text.encode() + data[end:]
        edited = data.decode()
        try:
            parse(edited)
        except SyntaxError:
            return None
        return edited

    def calls(self, name: str, inside: ast.AST | None = None) -> Iterator[ast.Call]:
        """Calls whose function is written `name`, or ends with `.name`."""
        for node in ast.walk(inside or self.tree):
            if isinstance(node, ast.Call):
                written = ast.unparse(node.func)
                if written == name or written.endswith("." + name):
                    yield node

    def functions(self) -> Iterator[ast.FunctionDef]:
        """Top-level functions, `kernel` excepted: bodies of kernels and their helpers."""
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef) and node.name != "kernel":
                yield node

    def _span(self, node: ast.expr | ast.arg) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        start = self._offsets[node.lineno - 1] + node.col_offset
        return start, self._offsets[node.end_lineno - 1] + node.end_col_offset


def _place(node: ast.expr | ast.arg) -> tuple[int, int]:
    return node.lineno, node.col_offset


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """The value of a keyword argument."""
    return next((k.value for k in call.keywords if k.arg == name), None)


def last_argument(call: ast.Call) -> ast.expr:
    """The argument that is written last."""
    found = [*call.args, *(k.value for k in call.keywords)]
    return max(found, key=lambda node: (node.lineno, node.col_offset))
