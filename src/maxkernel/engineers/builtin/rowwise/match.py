"""Recognises a row-wise program and says which axes are rows and which are columns."""

from __future__ import annotations

from dataclasses import dataclass

from maxkernel.engineers.builtin.axes import Dim, Unsupported
from maxkernel.engineers.builtin.operands import Operand, Space, flat
from maxkernel.engineers.builtin.split import Region, Result, carve
from maxkernel.engineers.builtin.terms import REDUCTIONS, InputUse, Program


@dataclass(frozen=True)
class RowProgram:
    """A program whose kernel works on values per element, per row, per column, and scalars."""

    program: Program
    region: Region

    @property
    def space(self) -> Space:
        """Rows and columns."""
        return self.region.space

    @property
    def operands(self) -> tuple[Operand, ...]:
        """What the kernel reads."""
        return self.region.operands

    @property
    def results(self) -> tuple[Result, ...]:
        """What the kernel writes."""
        return self.region.results

    @property
    def anchor(self) -> InputUse:
        """The first full-size input: its shape gives rows and columns at run time."""
        return next(o.use for o in self.operands if o.role == "full")

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns) at full size."""
        return self.program.extent(self.space.rows), self.program.extent(self.space.cols)


def match(program: Program) -> RowProgram:
    """The program as rows and columns; raises Unsupported with the reason."""
    live = program.live()
    if any(program[t].op == "dot" for t in live):
        raise Unsupported("it holds a matrix product")
    if any(program[t].op == "conv" for t in live):
        raise Unsupported("it holds a convolution")
    uses = [program.input(t) for t in live if program[t].op == "input"]
    if not uses:
        raise Unsupported("the result depends on no input")
    anchor = max(uses, key=lambda use: program.extent(flat(use.dims)))
    order = flat(anchor.dims)
    cols = _columns(program, live, anchor)
    if not cols or order[len(order) - len(cols) :] != cols:
        raise Unsupported("reductions run over other than the last dimensions")
    region = carve(program, Space((), order[: len(order) - len(cols)], cols), None)
    if not any(o.role == "full" for o in region.operands):
        raise Unsupported("nothing of full size is read")
    return RowProgram(program, region)


def _columns(program: Program, live: list[int], anchor: InputUse) -> Dim:
    """The axes of the first reduction that fits; without one, the largest input's last dimension.

    Reductions over runs of columns count with the whole dimension that the runs lie in.
    """
    order = flat(anchor.dims)
    last = next((dim for dim in reversed(anchor.dims) if dim), ())
    best: Dim = ()
    for term in live:
        if program[term].op in REDUCTIONS:
            over: Dim = program[term].attr("over")
            if over == order[len(order) - len(over) :] and len(over) > len(best):
                best = over
    if best and set(best) < set(last):
        return last
    return best or last
