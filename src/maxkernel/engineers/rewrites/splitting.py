"""A rewrite of sums over the innermost grid axis (split-k): parts of the sum side by side."""

from __future__ import annotations

import ast

from maxkernel.engineers.rewrites.carried_split import SPLIT_CALL
from maxkernel.engineers.rewrites.edits import Edits, keyword
from maxkernel.engineers.rewrites.modules import (
    body_named,
    function_named,
    usual_names,
    with_constants,
    with_functions,
    with_imports,
)
from maxkernel.engineers.rewrites.steps import FIRST, LAST, MIDDLE, Unreadable, Uses, uses_of

_NEW = frozenset({"split_call", "PARTS", "sum_step", "sum_steps"})
_ALLOWED: frozenset[str] = frozenset(
    "grid in_specs out_specs out_shape scratch_shapes compiler_params".split()
)
_ZEROS = ("zeros", "zeros_like")


def split_sum(source: str, parts: int) -> str | None:
    """Kernels whose innermost grid axis is a sum that one scratch array gathers: `parts` parts of
    it run side by side, and a second kernel adds them up and does the last step.

    The body stays as it is, but for where it learns its step. None where the sum is not plain:
    the scratch array is not only added to, the step is used beyond guards, or the result is
    touched before the last step.
    """
    edits = Edits(source)
    if not usual_names(edits.tree, _NEW):
        return None
    bodies: set[str] = set()
    for call in edits.calls("pallas_call", function_named(edits.tree, "kernel")):
        try:
            _rewrite(edits, call, bodies)
        except Unreadable:
            continue
    changed = edits.result() if bodies else None
    if changed is None:
        return None
    binds = ["import functools"] if "functools." in changed else []
    changed = with_imports(changed, "import dataclasses", *binds)
    changed = with_constants(changed, f"PARTS = {parts}  # of the sum, side by side")
    return with_functions(changed, SPLIT_CALL)


def _rewrite(edits: Edits, call: ast.Call, done: set[str]) -> None:
    """Divides the sum of one `pallas_call`. Raises Unreadable where it is none."""
    grid, specs = keyword(call, "grid"), keyword(call, "in_specs")
    scratch = keyword(call, "scratch_shapes")
    if frozenset(str(k.arg) for k in call.keywords) != _ALLOWED or len(call.args) != 1:
        raise Unreadable("arguments")
    if not isinstance(grid, ast.Tuple) or len(grid.elts) < 2:
        raise Unreadable("grid")
    if not isinstance(specs, ast.List) or not isinstance(scratch, ast.List):
        raise Unreadable("specs")
    rank, body = len(grid.elts), _body(edits, call.args[0])
    plain = all(_plain(spec, rank) for spec in [*specs.elts, keyword(call, "out_specs")])
    if not plain or not _semantics(edits, call, rank) or not _one_sum(scratch):
        raise Unreadable("specs")
    if body.name in done or len(body.args.args) != len(specs.elts) + 2 or body.args.vararg:
        raise Unreadable("body")
    *_, out, total = (a.arg for a in body.args.args)
    last = ast.unparse(grid.elts[-1])
    counts = frozenset(n for n, v in _bound(call.args[0]).items() if ast.unparse(v) == last)
    found = uses_of(body, rank - 1, counts, (out, total))
    if not _adds_up(found[total]) or _touched(found[out]) - {LAST}:
        raise Unreadable("sum")
    _edit_body(edits, body, rank - 1)
    edits.replace(call.func, "split_call")
    if any(edits.calls("num_programs", body)):
        _bind_count(edits, call.args[0], last)
    done.add(body.name)


def _adds_up(uses: Uses) -> bool:
    """True when every step but the last adds the same kind of value to a sum that starts at it."""
    starts = uses.resets[FIRST]
    if any(uses.resets[s] for s in (*MIDDLE, LAST)) or uses.reads - {LAST} or not starts:
        return False
    values = [text for text in starts if not _is_zero(text)]
    first = values + uses.adds[FIRST]
    fresh = not values or not uses.adds[FIRST]
    return fresh and bool(first) and all(uses.adds[s] == first for s in MIDDLE)


def _is_zero(text: str) -> bool:
    value = ast.parse(text).body[0]
    assert isinstance(value, ast.Assign)
    node = value.value
    return isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in _ZEROS


def _touched(uses: Uses) -> set[int]:
    written = {s for s in uses.adds if uses.adds[s] or uses.resets[s]}
    return uses.reads | written


def _body(edits: Edits, given: ast.expr) -> ast.FunctionDef:
    found = body_named(edits.tree, given)
    if found is None:
        raise Unreadable("body")
    return found


def _bound(given: ast.expr) -> dict[str, ast.expr]:
    keywords = given.keywords if isinstance(given, ast.Call) else []
    return {k.arg: k.value for k in keywords if k.arg is not None}


def _plain(spec: ast.expr | None, rank: int) -> bool:
    """A block in VMEM whose index is a function of all axes."""
    if not isinstance(spec, ast.Call) or not ast.unparse(spec.func).endswith("BlockSpec"):
        return False
    index = spec.args[1] if len(spec.args) == 2 and not spec.keywords else None
    return isinstance(index, ast.Lambda) and len(index.args.args) == rank


def _one_sum(scratch: ast.List) -> bool:
    """One array in VMEM of a type in which sums are kept."""
    texts = [ast.unparse(shape) for shape in scratch.elts]
    return (
        len(texts) == 1
        and "VMEM(" in texts[0]
        and texts[0].endswith(("jnp.float32)", "jnp.int32)"))
    )


def _semantics(edits: Edits, call: ast.Call, rank: int) -> bool:
    """True when only the last axis has an order."""
    for params in edits.calls("CompilerParams", keyword(call, "compiler_params")):
        kinds = keyword(params, "dimension_semantics")
        if isinstance(kinds, ast.Tuple | ast.List):
            texts = [ast.literal_eval(kind) for kind in kinds.elts]
            return texts == ["parallel"] * (rank - 1) + ["arbitrary"]
    return False


def _edit_body(edits: Edits, body: ast.FunctionDef, axis: int) -> None:
    """The body learns its step, and the number of steps where it asks, from who calls it."""
    counted = False
    for name, argument in (("program_id", "sum_step"), ("num_programs", "sum_steps")):
        for asked in edits.calls(name, body):
            if [ast.unparse(a) for a in asked.args] == [str(axis)]:
                edits.replace(asked, argument)
                counted |= argument == "sum_steps"
    edits.add_parameters(body, *(("sum_step", "sum_steps") if counted else ("sum_step",)))


def _bind_count(edits: Edits, given: ast.expr, count: str) -> None:
    """`sum_steps` is bound where the body is handed over."""
    if isinstance(given, ast.Call):
        edits.append(given.keywords[-1].value if given.keywords else given.args[-1],
                     f", sum_steps={count}")  # fmt: skip
    else:
        edits.replace(given, f"functools.partial({edits.text(given)}, sum_steps={count})")
