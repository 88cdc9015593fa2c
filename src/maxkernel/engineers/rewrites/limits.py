"""Rewrites of what a kernel may use of a core."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from maxkernel.engineers.rewrites.edits import Edits, keyword
from maxkernel.engineers.rewrites.numbers import number_of


def scale_vmem_limits(source: str, before: int, after: int) -> str | None:
    """Every `vmem_limit_bytes` that is a number in the source, for cores with `after` bytes of
    VMEM in place of `before`: the same share of them, in whole MiB."""
    edits = Edits(source)
    for node in _limits(edits):
        limit = number_of(node)
        if limit is not None and not edits.overlaps(node):
            edits.replace(node, f"{max(1, (limit * after // before) >> 20)} * 2**20")
    changed = edits.result()
    return changed if changed != source else None


def _limits(edits: Edits) -> Iterator[ast.expr]:
    """The limits themselves, or what the names are set to that stand there."""
    for call in edits.calls("CompilerParams"):
        value = keyword(call, "vmem_limit_bytes")
        if isinstance(value, ast.Name):
            for node in ast.walk(edits.tree):
                if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == value.id:
                    yield node.value
        elif value is not None:
            yield value
