"""Cuts a program in two: what one kernel computes, and what XLA makes of the kernel's results."""

from __future__ import annotations

from dataclasses import dataclass

from maxkernel.engineers.builtin.axes import Dim, Unsupported
from maxkernel.engineers.builtin.operands import Operand, Role, Space, flat, place
from maxkernel.engineers.builtin.terms import REDUCTIONS, Output, Program


@dataclass(frozen=True)
class Result:
    """One array that the kernel writes. `output`: its position among the program's outputs, when
    it is one as it stands; else XLA goes on from it."""

    term: int
    role: Role
    dtype: str
    output: int | None


@dataclass(frozen=True)
class Region:
    """The kernel's part of a program."""

    space: Space
    terms: tuple[int, ...]
    """In order, inputs included; below the core (a product) nothing is listed."""
    operands: tuple[Operand, ...]
    results: tuple[Result, ...]

    @property
    def has_rest(self) -> bool:
        """Whether XLA has something left to do."""
        return any(r.output is None for r in self.results)


def carve(program: Program, space: Space, core: int | None) -> Region:
    """The largest part of a program that fits one kernel over `space`.

    `core` is a term that the kernel computes by other means (a product). Raises Unsupported.
    """
    inside = set[int]() if core is None else {core}
    everything = program.reach((o.term for o in program.outputs), stop=lambda t: t == core)
    operands: dict[int, Operand] = {}
    reasons: list[str] = []
    for term in everything:
        if term == core:
            continue
        try:
            operand = _admit(program, space, term, inside)
        except Unsupported as why:
            reasons.append(str(why))
            continue
        inside.add(term)
        if operand:
            operands[term] = operand
    results = _results(program, space, inside, everything)
    if not results or all(program[r.term].op == "input" for r in results):
        raise Unsupported(reasons[0] if reasons else "nothing is computed")
    kept = program.reach((r.term for r in results), stop=lambda t: t == core)
    used = tuple(operands[t] for t in kept if t in operands)
    return Region(space, tuple(kept), used, results)


def _admit(program: Program, space: Space, term: int, inside: set[int]) -> Operand | None:
    """Accepts a term into the kernel (an input with its place) or raises Unsupported."""
    t = program[term]
    if not t.axes <= {*space.batch, *space.rows, *space.cols}:
        raise Unsupported("dimensions that are neither rows nor columns")
    if any(a not in inside for a in t.args):
        raise Unsupported("it follows something else that does not fit")
    if t.op == "input":
        return place(program, space, term)
    if t.op == "dot":
        raise Unsupported("it holds one more matrix product")
    if t.op == "conv":
        raise Unsupported("it holds a convolution")
    if t.op == "cumsum":
        raise Unsupported("it holds a running sum")
    if t.op in REDUCTIONS:
        over: Dim = t.attr("over")
        present = tuple(a for a in space.cols if a in program[t.args[0]].axes)
        if over != present and over != space.cols[len(space.cols) - len(over) :]:
            raise Unsupported("a reduction over other dimensions than a row's columns")
    if t.op in ("iota", "size") and t.attr("over") != space.cols:
        raise Unsupported("an index or a size of other dimensions than a row's columns")
    return None


def _results(
    program: Program, space: Space, inside: set[int], everything: list[int]
) -> tuple[Result, ...]:
    """Terms that leave the kernel: outputs that lie as its blocks do, and what XLA reads."""
    found: dict[int, Result] = {}
    for position, out in enumerate(program.outputs):
        role = _lies_as(space, out) if out.term in inside else None
        if role and out.term not in found and program[out.term].op != "input":
            found[out.term] = Result(out.term, role, out.dtype, position)
    direct = {r.output for r in found.values()}
    rest = [o.term for i, o in enumerate(program.outputs) if i not in direct]
    outside = program.reach(rest, stop=inside.__contains__)
    for term in outside:
        op = program[term].op
        if term in inside and term in everything and op not in ("input", "literal", "size"):
            role = space.role(program[term].axes)
            if role in ("full", "row"):
                kind = "int32" if program[term].kind == "int" else "float32"
                found.setdefault(term, Result(term, role, kind, None))
    return tuple(found[t] for t in sorted(found))


def _lies_as(space: Space, out: Output) -> Role | None:
    """The role of an output that is stored as the kernel's blocks lie, else None."""
    lies = flat(out.dims)
    if lies == space.batch + space.rows + space.cols:
        return "full"
    return "row" if lies == space.batch + space.rows else None
