"""The built-in debugger: deterministic repairs of typed failures."""

from __future__ import annotations

import ast

from maxkernel.engineers.builtin.module import tunables_text
from maxkernel.parsing import parse
from maxkernel.targets import Target
from maxkernel.types import Failure, Plan, TaskInfo, TunableSpace

_SMALLER = frozenset({"vmem", "timeout", "memory", "compile_crash"})
"""Failures that smaller blocks may cure."""


class BuiltinDebugger:
    """Shrinks blocks; everything else needs another plan."""

    def repair(
        self, info: TaskInfo, plan: Plan, source: str, failure: Failure, target: Target
    ) -> str | None:
        """The source with smaller default blocks, or None when that would not help."""
        if failure.kind not in _SMALLER or failure.stage not in ("compile", "capture", "check"):
            return None
        return shrink(source)


def shrink(source: str) -> str | None:
    """The source with the largest block tunable's choices cut to those below its default."""
    try:
        tree = parse(source)
    except SyntaxError:
        return None
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "TUNABLES":
            smaller = _smaller(ast.literal_eval(node.value))
            if smaller is None:
                return None
            lines = source.splitlines()
            assert node.end_lineno is not None
            lines[node.lineno - 1 : node.end_lineno] = [tunables_text(smaller)]
            return "\n".join(lines) + "\n"
    return None


def _smaller(space: TunableSpace) -> TunableSpace | None:
    sizes = {
        name: [c for c in choices if isinstance(c, int)]
        for name, choices in space.items()
        if name.startswith("block")
    }
    shrinkable = {name: choices for name, choices in sizes.items() if min(choices) < choices[0]}
    if not shrinkable:
        return None
    name = max(shrinkable, key=lambda n: shrinkable[n][0])
    kept = sorted((c for c in sizes[name] if c < sizes[name][0]), reverse=True)
    return {**space, name: tuple(kept)}
