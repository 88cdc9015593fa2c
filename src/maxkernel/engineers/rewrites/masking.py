"""A rewrite of kernels with masked scores: blocks that are wholly masked are not computed."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from maxkernel.engineers.rewrites.edits import Edits, keyword
from maxkernel.engineers.rewrites.intervals import Scope, possible
from maxkernel.engineers.rewrites.modules import body_named, function_named
from maxkernel.engineers.rewrites.numbers import is_lowest

_NEW = frozenset({"visible", "compute"})


def skip_masked(source: str) -> str | None:
    """The unguarded work of a running softmax whose scores `jnp.where` masks by comparisons of
    positions runs only where the mask lets an element of the block through.

    A wholly masked block adds weights of zero, so nothing changes without it. None where the mask
    says nothing by its bounds, or where the work does more than update scratch arrays by what
    comes of the scores.
    """
    edits = Edits(source)
    for call in edits.calls("pallas_call", function_named(edits.tree, "kernel")):
        body = body_named(edits.tree, call.args[0]) if call.args else None
        scratch = keyword(call, "scratch_shapes")
        if body is None or not isinstance(scratch, ast.List | ast.Tuple) or not scratch.elts:
            continue
        kept = frozenset(a.arg for a in body.args.args[-len(scratch.elts) :])
        work = _work(body, edits.tree)
        condition = _condition(work, kept, edits.tree) if work is not None else None
        if work is not None and condition is not None:
            return _guarded(source, work, condition)
    return None


@dataclass(frozen=True)
class _Work:
    """The statements of a body that run at every step."""

    body: ast.FunctionDef
    hoisted: tuple[ast.stmt, ...]
    """Scalars that are set between them."""
    statements: tuple[ast.stmt, ...]
    later: tuple[ast.stmt, ...]
    scope: Scope


def _work(body: ast.FunctionDef, tree: ast.Module) -> _Work | None:
    """The one run of unguarded statements; None where guarded ones stand between them."""
    scope = _scope(body, tree)
    statements = body.body[1:] if ast.get_docstring(body) is not None else body.body
    run: list[ast.stmt] = []
    hoisted: list[ast.stmt] = []
    waiting: list[ast.stmt] = []
    later: list[ast.stmt] = []
    for statement in statements:
        if isinstance(statement, ast.FunctionDef):
            if not statement.decorator_list:
                return None
            (later if run else []).append(statement)
        elif _is_scalar(statement, scope):
            waiting.append(statement)
        elif later:
            return None
        else:
            hoisted += waiting if run else []
            waiting = []
            run.append(statement)
    later += waiting if run else []
    return _Work(body, tuple(hoisted), tuple(run), tuple(later), scope) if run else None


def _scope(body: ast.FunctionDef, tree: ast.Module) -> Scope:
    values: dict[str, ast.expr] = {}
    twice: set[str] = set()
    for name, value in _assigned(body.body):
        if name in values:
            twice.add(name)
        values[name] = value
    numbers = {name for name, value in _assigned(tree.body) if isinstance(value, ast.Constant)}
    given = {a.arg for a in body.args.kwonlyargs} | numbers
    return Scope({n: v for n, v in values.items() if n not in twice}, frozenset(given))


def _assigned(statements: Sequence[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    """Names that are set, each with its value; both of `a, b = c, d`."""
    for statement in statements:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                yield from (
                    (n.id, v)
                    for n, v in zip(names, values, strict=False)
                    if isinstance(n, ast.Name)
                )
            case _:
                continue


def _is_scalar(statement: ast.stmt, scope: Scope) -> bool:
    """True for a statement that only sets names to whole numbers."""
    found = list(_assigned([statement]))
    return bool(found) and all(
        name in scope.values and scope.is_scalar(value) for name, value in found
    )


def _condition(work: _Work, kept: frozenset[str], tree: ast.Module) -> str | None:
    """When the work is needed; None where it does more than a running softmax, or where that
    cannot be told before it."""
    masks = [m for s in work.statements for m in _masks(s, tree)]
    found = [c for mask in masks if (c := possible(mask, work.scope)) is not None]
    if not found or not _is_softmax(work, kept, tree):
        return None
    condition = found[0] if len(found) == 1 else " & ".join(f"({c})" for c in found)
    inside = {n for s in work.statements for n in _names(s, ast.Store)}
    needed = _names(ast.parse(condition), ast.Load)
    used_later = {n for s in work.later for n in _names(s, ast.Load)}
    taken = {n.id for n in ast.walk(work.body) if isinstance(n, ast.Name)} & _NEW
    clash = inside & (needed | used_later) or taken
    return None if clash else condition


def _masks(statement: ast.stmt, tree: ast.Module) -> Iterator[ast.expr]:
    """Masks that leave the lowest score where they are false."""
    for node in ast.walk(statement):
        match node:
            case ast.Call(func=ast.Attribute(attr="where"), args=[mask, _, low]):
                if is_lowest(low, tree):
                    yield mask
            case _:
                continue


def _is_softmax(work: _Work, kept: frozenset[str], tree: ast.Module) -> bool:
    """True when the work takes exponentials, and changes nothing but scratch arrays, by values
    that come of masked scores."""
    masked: set[str] = set()
    exponential = False
    for statement in work.statements:
        match statement:
            case (
                ast.Assign(targets=[target], value=value)
                | ast.AugAssign(target=target, value=value)
            ):
                comes = any(_masks(statement, tree)) or bool(_names(value, ast.Load) & masked)
            case _:
                return False
        exponential |= any(
            isinstance(n, ast.Call) and ast.unparse(n.func).endswith((".exp", ".exp2"))
            for n in ast.walk(statement)
        )
        if isinstance(target, ast.Subscript):
            if ast.unparse(target.value) not in kept or not comes:
                return False
        elif comes:
            masked |= _names(statement, ast.Store)
    return exponential


def _names(node: ast.AST, kind: type[ast.expr_context]) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, kind)}


def _guarded(source: str, work: _Work, condition: str) -> str | None:
    """The source with the work in a guarded function, behind the scalars that stood within."""
    lines = source.splitlines(keepends=True)
    first, last = work.statements[0], work.statements[-1]
    start, end = first.lineno - 1, last.end_lineno or last.lineno
    apart = {n for s in work.hoisted for n in range(s.lineno - 1, s.end_lineno or s.lineno)}
    inner = [lines[n] for n in range(start, end) if n not in apart]
    if any('"""' in line or "'''" in line for line in inner):
        return None
    pad = " " * first.col_offset
    head = [lines[n] for n in sorted(apart)]
    guard = f"{pad}visible = {condition}\n\n{pad}@pl.when(visible)\n{pad}def compute():\n"
    block = [f"    {line}" if line.strip() else line for line in inner]
    changed = "".join([*lines[:start], *head, guard, *block, *lines[end:]])
    try:
        ast.parse(changed)
    except SyntaxError:
        return None
    return changed
