"""Masks as functions of positions: bounds on the distance between query and key."""

from __future__ import annotations

from dataclasses import dataclass

from maxkernel.engineers.builtin.axes import Dim
from maxkernel.engineers.builtin.terms import Program

BLOCKED = -1e4
"""A score at or below this stands for "not visible"."""


@dataclass(frozen=True)
class Mask:
    """What a query sees. `causal`: keys up to its own position; `window`: the last so many keys
    up to itself; `rest`: terms of kind bool that hold as well, evaluated on every block."""

    causal: bool = False
    window: int | None = None
    rest: tuple[int, ...] = ()


def read_mask(program: Program, conditions: list[int], rows: Dim, cols: Dim) -> Mask:
    """Bounds from conditions that hold together; a window counts only below a causal bound."""
    parts = [p for c in conditions for p in _conjuncts(program, c)]
    lowest: list[int] = []
    bounds: list[tuple[int, int, int]] = []
    rest: list[int] = []
    for part in parts:
        found = _bound(program, part, rows, cols)
        if found is None:
            rest.append(part)
        else:
            bounds += [(part, *f) for f in found]
    causal = any(sign > 0 and limit == 0 for _, sign, limit in bounds)
    for part, sign, limit in bounds:
        if sign > 0 and limit == 0:
            continue
        if sign < 0 and causal and limit >= 0:
            lowest.append(limit)
        elif part not in rest:
            rest.append(part)
    window = min(lowest) + 1 if lowest else None
    return Mask(causal, window, tuple(rest))


def _conjuncts(program: Program, term: int) -> list[int]:
    t = program[term]
    if t.op == "and":
        return [p for a in t.args for p in _conjuncts(program, a)]
    if t.op == "where" and t.kind == "bool":
        yes, no = (program.literal(a) for a in t.args[1:])
        if yes is True and no is False:
            return _conjuncts(program, t.args[0])
        if no is False:
            return _conjuncts(program, t.args[0]) + _conjuncts(program, t.args[1])
    if program.literal(term) is True:
        return []
    return [term]


def _bound(program: Program, term: int, rows: Dim, cols: Dim) -> list[tuple[int, int]] | None:
    """(+1, c): key <= query + c; (-1, c): key >= query - c. None for any other condition."""
    t = program[term]
    if t.op == "not":
        flipped = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}.get(program[t.args[0]].op)
        return _compare(program, flipped, program[t.args[0]].args, rows, cols) if flipped else None
    return _compare(program, t.op, t.args, rows, cols)


def _compare(
    program: Program, op: str, args: tuple[int, ...], rows: Dim, cols: Dim
) -> list[tuple[int, int]] | None:
    if op not in ("lt", "le", "gt", "ge"):
        return None
    left, right = args if op in ("ge", "gt") else args[::-1]
    strict = op in ("gt", "lt")
    size = program[right].args[0] if program[right].op == "abs" else None
    limit = program.literal(left)
    if size is not None and limit is not None:
        form = _linear(program, size, rows, cols)
        if form and form[:2] in ((1, -1), (-1, 1)) and form[2] == 0:
            return [(1, int(limit) - strict), (-1, int(limit) - strict)]
    a, b = _linear(program, left, rows, cols), _linear(program, right, rows, cols)
    if a is None or b is None:
        return None
    row, col, constant = (x - y for x, y in zip(a, b, strict=True))
    if (row, col) == (1, -1):
        return [(1, constant - strict)]
    if (row, col) == (-1, 1):
        return [(-1, constant - strict)]
    return None


def _linear(program: Program, term: int, rows: Dim, cols: Dim) -> tuple[int, int, int] | None:
    """(a, b, c) when the term is a * query + b * key + c with whole numbers."""
    t = program[term]
    value = program.literal(term)
    if value is not None:
        return (0, 0, int(value)) if float(value).is_integer() else None
    if t.op == "iota":
        over = t.attr("over")
        return (1, 0, 0) if over == rows else (0, 1, 0) if over == cols else None
    if t.op == "to_float":
        return _linear(program, t.args[0], rows, cols)
    if t.op not in ("add", "sub", "neg"):
        return None
    forms = [_linear(program, a, rows, cols) for a in t.args]
    if any(f is None for f in forms):
        return None
    sign = -1 if t.op in ("sub", "neg") else 1
    known = [f for f in forms if f is not None]
    if t.op == "neg":
        known.insert(0, (0, 0, 0))
    x, y = known
    return x[0] + sign * y[0], x[1] + sign * y[1], x[2] + sign * y[2]
