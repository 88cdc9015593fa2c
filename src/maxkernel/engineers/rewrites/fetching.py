"""A rewrite of how operands come to VMEM: by own copies, several blocks ahead, not by a pipeline
with two buffers that fetches one block ahead and whatever changes at a step with that step."""

from __future__ import annotations

import ast
import re

from maxkernel.engineers.rewrites.carried import FETCHED_CALL
from maxkernel.engineers.rewrites.edits import Edits, keyword
from maxkernel.engineers.rewrites.modules import (
    usual_names,
    with_constants,
    with_functions,
    with_imports,
)

WIDTH = 88
"""Columns that `ruff format` leaves alone."""

_NEW = frozenset({"Fetch", "numbering", "slots", "fetched_call", "DEPTH", "RESIDENT_BYTES"})
_ALLOWED = frozenset(
    "grid in_specs out_specs out_shape scratch_shapes compiler_params name cost_estimate".split()
)
_DEPTH = re.compile(r"(?m)^DEPTH = \d+")


def fetch_ahead(source: str, depth: int) -> str | None:
    """Operands in HBM, each with up to `depth` buffers that own copies fill ahead of their use.

    Where the kernel does so already, another depth. Blocks that do not divide an operand stay
    with the pipeline of `pallas_call`. For one core only: copies run ahead across grid steps,
    so no axis is parallel any more.
    """
    if "fetched_call(" in source:
        changed = _DEPTH.sub(f"DEPTH = {depth}", source)
        return changed if changed != source else None
    edits = Edits(source)
    if not usual_names(edits.tree, _NEW):
        return None
    found = [call for call in edits.calls("pallas_call") if _rewrite(edits, call)]
    changed = edits.result() if found else None
    return changed and _carry(changed, depth)


def _rewrite(edits: Edits, call: ast.Call) -> bool:
    """Makes one `pallas_call` fetch its operands itself; False leaves it as it is."""
    grid, specs = keyword(call, "grid"), keyword(call, "in_specs")
    given = {k.arg for k in call.keywords}
    if len(call.args) != 1 or not given <= _ALLOWED or not isinstance(grid, ast.Tuple):
        return False
    if not isinstance(specs, ast.List | ast.Tuple):
        return False
    axes = [_axes(spec, len(grid.elts)) for spec in specs.elts]
    if not any(axes) or any(isinstance(spec, ast.Starred) for spec in specs.elts):
        return False
    column = next(k.col_offset for k in call.keywords if k.arg == "in_specs")
    edits.replace(call.func, "fetched_call")
    edits.append(specs, f",\n{' ' * column}{_axes_text(axes, column)}")
    for params in edits.calls("CompilerParams", call):
        semantics = keyword(params, "dimension_semantics")
        for kind in semantics.elts if isinstance(semantics, ast.Tuple | ast.List) else ():
            edits.replace(kind, '"arbitrary"')
    return True


def _axes(spec: ast.expr, rank: int) -> tuple[int, ...] | None:
    """Axes of the grid on which a block depends; None where it is not to be fetched ahead.

    A function of several axes counts for the last of them: it goes through the blocks in some
    order for every step of the others. A quotient or a rest shows a block several times in a row,
    which the pipeline sees.
    """
    plain = isinstance(spec, ast.Call) and len(spec.args) == 2 and not spec.keywords
    if not plain or not isinstance(spec, ast.Call) or not isinstance(spec.args[1], ast.Lambda):
        return None
    shape, index = spec.args[0], spec.args[1]
    names = [a.arg for a in index.args.args]
    if not isinstance(shape, ast.Tuple) or not isinstance(index.body, ast.Tuple):
        return None
    if len(names) != rank or index.args.defaults:
        return None
    found: set[int] = set()
    for entry in index.body.elts:
        read = [n.id for n in ast.walk(entry) if isinstance(n, ast.Name)]
        used = sorted(names.index(name) for name in read if name in names)
        if any(isinstance(n, ast.FloorDiv | ast.Mod) for n in ast.walk(entry)):
            return None
        found |= set(used) if isinstance(entry, ast.BinOp) else set(used[-1:])
    return tuple(sorted(found))


def _axes_text(axes: list[tuple[int, ...] | None], column: int) -> str:
    """The argument `axes`, on one line or one line each."""
    items = [repr(a) for a in axes]
    line = f"axes=[{', '.join(items)}]"
    if column + len(line) < WIDTH:
        return line
    pad = " " * column
    return "axes=[\n" + "".join(f"{pad}    {item},\n" for item in items) + f"{pad}]"


def _carry(source: str, depth: int) -> str:
    """The source with what `fetched_call` needs."""
    source = with_imports(source, "import math", "from typing import NamedTuple")
    source = with_constants(
        source,
        f"DEPTH = {depth}  # buffers of an operand: one in use, others being filled",
        "RESIDENT_BYTES = 32 * 2**20  # an operand read again stays in VMEM up to this",
    )
    return with_functions(source, FETCHED_CALL)
