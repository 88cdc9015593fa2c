"""Reads the condition under which a position of a sequence counts."""

from __future__ import annotations

from maxkernel.engineers.builtin.axes import Dim, Unsupported
from maxkernel.engineers.builtin.terms import Program

_FLIPPED = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}


def length_bound(
    program: Program, seen: list[int], hidden: list[int], keys: Dim
) -> tuple[int, int]:
    """(length, shift): a position counts where it is below length + shift.

    `seen` or `hidden` holds the one condition under which it counts, or does not; `keys` are the
    axes of positions. Raises Unsupported for a condition of another form.
    """
    condition, negated = (seen[0], False) if seen else (hidden[0], True)
    if program[condition].op == "not":
        condition, negated = program[condition].args[0], not negated
    t = program[condition]
    op = _FLIPPED.get(t.op, "") if negated else t.op
    if op not in _FLIPPED:
        raise Unsupported("positions are not compared with a length")
    small, large = t.args if op in ("lt", "le") else t.args[::-1]
    position, offset = _linear(program, small)
    length, shift = _linear(program, large)
    if program[position].op != "iota" or program[position].attr("over") != keys:
        raise Unsupported("positions are not compared with a length")
    if program[length].op != "input":
        raise Unsupported("the lengths are computed by the program")
    return length, shift - offset + (op in ("le", "ge"))


def _linear(program: Program, term: int) -> tuple[int, int]:
    """(base, constant) of a whole number that is base + constant."""
    t = program[term]
    if t.op in ("add", "sub"):
        value = program.literal(t.args[1])
        if value is not None and float(value).is_integer():
            base, more = _linear(program, t.args[0])
            return base, more + int(value) * (1 if t.op == "add" else -1)
    return term, 0
