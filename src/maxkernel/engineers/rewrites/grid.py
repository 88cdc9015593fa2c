"""Rewrites of the order in which a grid is walked."""

from __future__ import annotations

import ast

from maxkernel.engineers.rewrites.edits import Edits, keyword

_AXIS_CALLS = ("program_id", "num_programs")


def swap_axes(source: str) -> str | None:
    """The first two axes of a grid change places, where no axis depends on another's order."""
    edits, swapped = Edits(source), False
    for call in edits.calls("pallas_call"):
        grid = keyword(call, "grid")
        semantics = [s for c in edits.calls("CompilerParams", call) if (s := _semantics(c))]
        free = semantics and set(semantics[0]) == {"parallel"}
        if not isinstance(grid, ast.Tuple) or len(grid.elts) != 2 or not free:
            continue
        swapped = True
        first, second = grid.elts
        edits.replace(first, edits.text(second))
        edits.replace(second, edits.text(first))
        for spec in edits.calls("BlockSpec", call):
            for index in spec.args[1:] + [k.value for k in spec.keywords]:
                if isinstance(index, ast.Lambda) and len(index.args.args) == 2:
                    one, two = (a.arg for a in index.args.args)
                    edits.replace(index, f"lambda {two}, {one}: {edits.text(index.body)}")
    for function in edits.functions() if swapped else ():
        for name in _AXIS_CALLS:
            for asked in edits.calls(name, function):
                axis = asked.args[0] if asked.args else None
                if isinstance(axis, ast.Constant) and axis.value in (0, 1):
                    edits.replace(axis, str(1 - int(axis.value)))
    return edits.result()


def _semantics(call: ast.Call) -> list[str]:
    value = keyword(call, "dimension_semantics")
    if not isinstance(value, ast.Tuple | ast.List):
        return []
    return [str(e.value) for e in value.elts if isinstance(e, ast.Constant)]
