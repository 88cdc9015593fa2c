"""What the body of a kernel does at which step of its innermost grid axis, as its guards tell.

Four steps stand for any number: the first, two in the middle, the last.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from maxkernel.engineers.rewrites.numbers import ring

STEPS = 4
FIRST, MIDDLE, LAST = 0, (1, 2), 3
_ALL = frozenset(range(STEPS))
_SIZES = frozenset({"shape", "dtype", "ndim", "size"})
_LIKE = ("zeros_like", "ones_like", "full_like", "empty_like")


class Unreadable(Exception):
    """A construct whose steps cannot be told from the source."""


@dataclass
class Uses:
    """What happens to one Ref, by step."""

    resets: dict[int, list[str]] = field(default_factory=lambda: {s: [] for s in _ALL})
    """Values that replace what is there, as `index = value`."""
    adds: dict[int, list[str]] = field(default_factory=lambda: {s: [] for s in _ALL})
    """Values that are added to what is there."""
    reads: set[int] = field(default_factory=set[int])
    """Steps at which it is read, but for adding to it."""


def uses_of(
    body: ast.FunctionDef, axis: int, counts: frozenset[str], refs: tuple[str, ...]
) -> dict[str, Uses]:
    """The uses of some Refs of a body. `counts`: its parameters that hold the number of steps.

    Raises Unreadable where a guard cannot be evaluated, a Ref goes elsewhere, or the step is used
    for anything but guards.
    """
    return _Reader(body, axis, counts, refs).found


class _Reader:
    def __init__(
        self, body: ast.FunctionDef, axis: int, counts: frozenset[str], refs: tuple[str, ...]
    ) -> None:
        self.found = {name: Uses() for name in refs}
        self._step = {f"pl.program_id({axis})"}
        self._counts = {f"pl.num_programs({axis})", *counts}
        self._parents = {c: n for n in ast.walk(body) for c in ast.iter_child_nodes(n)}
        self._visit(body.body, _ALL)

    def _visit(self, statements: list[ast.stmt], steps: frozenset[int]) -> None:
        for statement in statements:
            match statement:
                case ast.FunctionDef(decorator_list=[guard]):
                    self._visit(statement.body, self._passing(_condition(guard), steps))
                case ast.FunctionDef(decorator_list=[]) | ast.For() | ast.With():
                    self._visit(statement.body, steps)
                case ast.If():
                    then = self._passing(statement.test, steps)
                    known = self._mentions(statement.test, self._step | self._counts)
                    self._visit(statement.body, then)
                    self._visit(statement.orelse, steps - then if known else steps)
                case ast.Assign(targets=[ast.Name(id=name)]) if (
                    _text(statement.value) in self._step
                ):
                    self._step.add(name)
                case ast.Assign() | ast.AugAssign() | ast.AnnAssign() | ast.Expr() | ast.Return():
                    self._leaf(statement, steps)
                case _:
                    raise Unreadable(_text(statement))

    def _passing(self, test: ast.expr, steps: frozenset[int]) -> frozenset[int]:
        """Those steps at which a condition may hold."""
        if not self._mentions(test, self._step | self._counts):
            return steps
        counts = dict.fromkeys(self._counts, STEPS)
        return frozenset(s for s in steps if evaluate(test, counts | dict.fromkeys(self._step, s)))

    def _mentions(self, node: ast.AST, texts: set[str]) -> bool:
        return any(isinstance(n, ast.Name | ast.Call) and _text(n) in texts for n in ast.walk(node))

    def _leaf(self, statement: ast.stmt, steps: frozenset[int]) -> None:
        if self._mentions(statement, self._step):
            raise Unreadable(_text(statement))
        for name, uses in self.found.items():
            loads = [n for n in self._elements(statement, name) if isinstance(n.ctx, ast.Load)]
            kind, text, own = _store(statement, name)
            for step in steps if kind else ():
                (uses.adds if kind == "add" else uses.resets)[step].append(text)
            if len(loads) > own:
                uses.reads |= steps

    def _elements(self, statement: ast.stmt, name: str) -> Iterator[ast.Subscript]:
        """Where elements of a Ref are read or written."""
        for node in ast.walk(statement):
            if not isinstance(node, ast.Name) or node.id != name:
                continue
            above = self._parents[node]
            if isinstance(above, ast.Subscript) and above.value is node:
                yield above
            elif not (
                (isinstance(above, ast.Attribute) and above.attr in _SIZES)
                or (isinstance(above, ast.Call) and _text(above.func).endswith(_LIKE))
            ):
                raise Unreadable(_text(above))


def evaluate(node: ast.expr, known: dict[str, int]) -> int:
    """The value of arithmetic and comparisons on what is known, by its text."""
    if _text(node) in known:
        return known[_text(node)]
    match node:
        case ast.Constant(value=int() as value):
            return int(value)
        case ast.UnaryOp(op=ast.Not() | ast.Invert()):
            return int(not evaluate(node.operand, known))
        case ast.BoolOp():
            found = [bool(evaluate(value, known)) for value in node.values]
            return int(all(found) if isinstance(node.op, ast.And) else any(found))
        case ast.BinOp():
            return _arithmetic(node.op, evaluate(node.left, known), evaluate(node.right, known))
        case ast.Compare(ops=[op], comparators=[other]):
            return _compare(op, evaluate(node.left, known), evaluate(other, known))
        case ast.Call(args=[one, two]) if _text(node.func).endswith("logical_and"):
            return int(bool(evaluate(one, known) and evaluate(two, known)))
        case ast.Call(args=[one, two]) if _text(node.func).endswith("logical_or"):
            return int(bool(evaluate(one, known) or evaluate(two, known)))
        case _:
            raise Unreadable(_text(node))


def _arithmetic(op: ast.operator, left: int, right: int) -> int:
    match op:
        case ast.BitAnd():
            return left & right
        case ast.BitOr():
            return left | right
        case _:
            found = ring(op, left, right)
            if found is None:
                raise Unreadable(type(op).__name__)
            return found


def _compare(op: ast.cmpop, left: int, right: int) -> int:
    match op:
        case ast.Eq():
            return left == right
        case ast.NotEq():
            return left != right
        case ast.Lt():
            return left < right
        case ast.LtE():
            return left <= right
        case ast.Gt():
            return left > right
        case ast.GtE():
            return left >= right
        case _:
            raise Unreadable(type(op).__name__)


def _condition(guard: ast.expr) -> ast.expr:
    """The condition of `@pl.when(condition)`."""
    if isinstance(guard, ast.Call) and _text(guard.func) == "pl.when" and len(guard.args) == 1:
        return guard.args[0]
    raise Unreadable(_text(guard))


def _store(statement: ast.stmt, name: str) -> tuple[str, str, int]:
    """What a statement does to a Ref (`add`, `reset` or nothing), the text of it, and how often
    it reads the Ref for that."""
    match statement:
        case ast.AugAssign(target=ast.Subscript(value=ast.Name(id=found)) as target):
            if found != name:
                return "", "", 0
            if not isinstance(statement.op, ast.Add):
                raise Unreadable(_text(statement))
            return "add", f"{_text(target)} = {_text(statement.value)}", 0
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=found)) as target]):
            if found != name:
                return "", "", 0
            value, place = statement.value, _text(target)
            if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
                for mine, other in ((value.left, value.right), (value.right, value.left)):
                    if _text(mine) == place:
                        return "add", f"{place} = {_text(other)}", 1
            return "reset", f"{place} = {_text(value)}", 0
        case _:
            return "", "", 0


def _text(node: ast.AST) -> str:
    return ast.unparse(node)
