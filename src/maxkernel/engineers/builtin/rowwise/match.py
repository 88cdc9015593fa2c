"""Recognises a row-wise program and says which axes are rows and which are columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from maxkernel.engineers.builtin.axes import Axis, Dim, Unsupported
from maxkernel.engineers.builtin.terms import REDUCTIONS, InputUse, Output, Program

Role = Literal["full", "row", "col", "scalar"]


@dataclass(frozen=True)
class Operand:
    """An input of the kernel and its shape there."""

    term: int
    use: InputUse
    role: Role


@dataclass(frozen=True)
class RowProgram:
    """A program whose every value is per element, per row, per column or a scalar."""

    program: Program
    rows: Dim
    cols: Dim
    operands: tuple[Operand, ...]
    outputs: tuple[tuple[Output, Role], ...]

    @property
    def anchor(self) -> InputUse:
        """The first full-size input: its shape gives rows and columns at run time."""
        return next(o.use for o in self.operands if o.role == "full")

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns) at full size."""
        return self.program.extent(self.rows), self.program.extent(self.cols)

    def role(self, axes: frozenset[Axis]) -> Role:
        """Shape class of a value that depends on these axes."""
        across, along = bool(axes & set(self.rows)), bool(axes & set(self.cols))
        if along and (across or not self.rows):
            return "full"
        return "row" if across else "col" if along else "scalar"


def match(program: Program) -> RowProgram:
    """The program as rows and columns; raises Unsupported with the reason."""
    live = program.live()
    for term in live:
        if program[term].op == "dot":
            raise Unsupported("it holds a matrix product")
    uses = [program.input(t) for t in live if program[t].op == "input"]
    if not uses:
        raise Unsupported("the result depends on no input")
    anchor = max(uses, key=lambda use: program.extent(_flat(use)))
    cols = _columns(program, live, anchor)
    flat = _flat(anchor)
    if not cols or flat[len(flat) - len(cols) :] != cols:
        raise Unsupported("reductions run over other than the last dimensions")
    found = RowProgram(program, flat[: len(flat) - len(cols)], cols, (), ())
    operands = tuple(
        Operand(t, program.input(t), _place(found, _flat(program.input(t)), "an input"))
        for t in live
        if program[t].op == "input"
    )
    outputs = tuple[tuple[Output, Role], ...](
        (out, _place_output(found, out)) for out in program.outputs
    )
    return RowProgram(program, found.rows, cols, operands, outputs)


def _flat(use: InputUse) -> Dim:
    return tuple(a for dim in use.dims for a in dim)


def _columns(program: Program, live: list[int], anchor: InputUse) -> Dim:
    """The reduced axes; without reductions, the last dimension of the largest input."""
    reduced: set[Dim] = {program[t].attr("over") for t in live if program[t].op in REDUCTIONS}
    if not reduced:
        return next((dim for dim in reversed(anchor.dims) if dim), ())
    if len({frozenset(over) for over in reduced}) > 1:
        raise Unsupported("reductions run over different dimensions")
    order = _flat(anchor)
    return tuple(sorted(reduced.pop(), key=lambda a: order.index(a) if a in order else -1))


def _place(found: RowProgram, flat: Dim, what: str) -> Role:
    """The role of an array that lies as `flat`."""
    role = found.role(frozenset(flat))
    expected = {"full": found.rows + found.cols, "row": found.rows, "col": found.cols, "scalar": ()}
    if flat != expected[role]:
        raise Unsupported(f"{what} lies in another order, or spans part of the rows")
    return role


def _place_output(found: RowProgram, out: Output) -> Role:
    role = _place(found, tuple(a for d in out.dims for a in d), "a result")
    if role == "scalar" and not found.rows:
        return "row"
    if role in ("col", "scalar"):
        raise Unsupported("a result is the same for every row, or spans all of them")
    return role
