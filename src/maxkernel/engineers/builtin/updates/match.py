"""Recognises updates: programs that are independent per unit, a matrix of an array that stands at
one index of its leading dimensions (sequences, heads)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from maxkernel.engineers.builtin.axes import Axis, Dim, Unsupported
from maxkernel.engineers.builtin.operands import flat
from maxkernel.engineers.builtin.terms import REDUCTIONS, InputUse, Program

Stage = Literal["around", "block", "unit"]
"""Who computes a term: XLA on whole arrays, the kernel for all units of a block at once, or the
kernel unit by unit."""
MOST_SHARED = 8
"""Units that share a vector in the kernel; for more XLA repeats it."""
_NEUTRAL = ("literal", "size")
_REFUSED = {
    "dot": "a product of matrices",
    "conv": "a convolution",
    "cumsum": "a running sum",
}


@dataclass(frozen=True)
class Update:
    """A program over `units`, each of them a matrix of `rows` and `cols`.

    `stages` says who computes a term; literals have none. `after` are terms that XLA computes from
    the kernel's results. `results` are the terms that the kernel writes, in order.
    """

    program: Program
    anchor: InputUse
    units: Dim
    rows: Dim
    cols: Dim
    stages: dict[int, Stage]
    after: frozenset[int]
    results: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, int, int]:
        """(units, rows, columns) at full size."""
        extent = self.program.extent
        return extent(self.units), extent(self.rows), extent(self.cols)

    def spans(self, term: int) -> tuple[bool, bool]:
        """Whether a term's value differs between rows, and between columns."""
        axes = self.program[term].axes
        return bool(axes & set(self.rows)), bool(axes & set(self.cols))

    def full(self, term: int) -> bool:
        """Whether a term's value is a matrix per unit."""
        return all(self.spans(term))

    def leading(self, term: int) -> Dim:
        """The axes of units that a term depends on, in order."""
        return tuple(a for a in self.units if a in self.program[term].axes)

    def lies(self, term: int) -> Dim:
        """The axes of units that a term's array in the kernel has: all, unless those that it
        depends on come first, so that a few neighbours share a row."""
        leading, extent = self.leading(term), self.program.extent
        first = leading == self.units[: len(leading)]
        few = not leading or extent(self.units) <= MOST_SHARED * extent(leading)
        return leading if first and few else self.units

    def brought(self) -> list[int]:
        """Terms that the kernel gets from outside, inputs and what XLA computed, in order."""
        inside = [t for t in self.stages if self.stages[t] != "around"]
        found = {t for t in inside if self.program[t].op == "input"}
        found.update(
            a for t in inside for a in self.program[t].args if self.stages.get(a) == "around"
        )
        found.update(t for t in self.results if self.stages[t] == "around")
        return sorted(found)

    def handed(self) -> list[int]:
        """Terms that are there for a whole block, which units read, in order."""
        mine = [t for t in self.stages if self.stages[t] == "unit"]
        read = {a for t in mine for a in self.program[t].args} | set(self.results)
        brought = set(self.brought())
        return sorted(a for a in read if a in brought or self.stages.get(a) == "block")


def match(program: Program) -> Update:
    """The program as an update; raises Unsupported with the reason."""
    live = program.live()
    for term in live:
        if program[term].op in _REFUSED:
            raise Unsupported(f"it holds {_REFUSED[program[term].op]}")
    uses = [program.input(t) for t in live if program[t].op == "input"]
    if not uses:
        raise Unsupported("the result depends on no input")
    anchor = max(uses, key=lambda use: program.extent(flat(use.dims)))
    units, rows, cols = _split(program, anchor, live)
    found = Update(program, anchor, units, rows, cols, {}, frozenset(), ())
    stages = _stages(found, live)
    after = _after(found, stages, live)
    results = _results(found, after, stages)
    kept = [t for t in live if t in stages and t not in after]
    _check(found, {t: stages[t] for t in kept})
    kernel = set(program.reach(results))
    return Update(
        program,
        anchor,
        units,
        rows,
        cols,
        {t: stages[t] for t in kept if t in kernel},
        after,
        results,
    )


def _split(program: Program, anchor: InputUse, live: list[int]) -> tuple[Dim, Dim, Dim]:
    """(units, rows, columns) of the largest input: columns are its last dimension, rows all before
    it that some reduction of a matrix runs over, or one dimension."""
    dims = [d for d in anchor.dims if d]
    if len(dims) < 3:
        raise Unsupported("the largest input is no array of matrices")
    order, cols = flat(dims), dims[-1]
    before = order[: len(order) - len(cols)]
    summed = {
        before.index(a)
        for t in live
        if program[t].op in REDUCTIONS and program[program[t].args[0]].axes == frozenset(order)
        for a in program[t].attr("over")
        if a in before
    }
    start = min([*summed, len(before) - len(dims[-2])])
    if start == 0:
        raise Unsupported("a reduction runs over the first dimension of the largest input")
    return before[:start], before[start:], cols


def _stages(update: Update, live: list[int]) -> dict[int, Stage]:
    """Who computes each term, as far as it is no literal."""
    program = update.program
    everything = {*update.units, *update.rows, *update.cols}
    stages: dict[int, Stage] = {}
    for term in live:
        t = program[term]
        if not t.axes <= everything:
            raise Unsupported("dimensions that the largest input does not have")
        if t.op in _NEUTRAL:
            continue
        args = [a for a in t.args if a in stages]
        if t.op == "input":
            stages[term] = _brought(update, term)
        elif t.op == "iota" and not t.axes <= set(update.units):
            raise Unsupported("an index of rows or columns of the matrices")
        elif update.full(term) or any(stages[a] == "unit" for a in args):
            stages[term] = "unit"
        elif all(stages[a] == "around" for a in args):
            stages[term] = "around"
        else:
            leading = {update.lies(a) for a in args if update.lies(a)}
            stages[term] = "block" if len(leading) <= 1 else "unit"
    return stages


def _brought(update: Update, term: int) -> Stage:
    """Vectors and matrices go into the kernel as they lie, where neighbours share them at most."""
    use = update.program.input(term)
    rows, cols = update.spans(term)
    leading = update.leading(term)
    inner = (update.rows if rows else ()) + (update.cols if cols else ())
    if not inner:
        return "around"
    in_order = flat(use.dims) == leading + inner and update.lies(term) == leading
    if rows and cols:
        if not in_order or use.dtype == "bool":
            raise Unsupported(f"`{use.name}` lies in another order than the largest input")
        return "unit"
    return "block" if in_order and use.dtype != "bool" else "around"


def _after(update: Update, stages: dict[int, Stage], live: list[int]) -> frozenset[int]:
    """What follows from the units' results, but not unit by unit."""
    found = set[int]()
    for term in live:
        if term in stages and stages[term] != "around" and _leaves(update, term, found):
            if update.full(term):
                raise Unsupported("a matrix follows from a reduction over units")
            found.add(term)
    outputs = {o.term for o in update.program.outputs}
    users: dict[int, set[int]] = {}
    for term in live:
        for arg in update.program[term].args:
            users.setdefault(arg, set()).add(term)
    for term in reversed(live):
        t = update.program[term]
        mine = term in stages and term not in outputs and t.op != "input"
        if mine and users[term] <= found and not any(update.full(a) for a in t.args):
            found.add(term)
    return frozenset(found)


def _leaves(update: Update, term: int, after: set[int]) -> bool:
    t = update.program[term]
    if any(a in after for a in t.args):
        return True
    return t.op in REDUCTIONS and bool(set(t.attr("over")) & set(update.units))


def _results(update: Update, after: frozenset[int], stages: dict[int, Stage]) -> tuple[int, ...]:
    """Outputs that the kernel computes, and what XLA goes on from."""
    program = update.program
    found = [o.term for o in program.outputs if o.term not in after]
    found += sorted(a for t in after for a in program[t].args if a in stages and a not in after)
    kept = [
        t
        for t in dict.fromkeys(found)
        if stages.get(t) in ("unit", "block") and program[t].op != "input"
    ]
    if any(stages[t] == "unit" and update.leading(t) != update.units for t in kept):
        raise Unsupported("a result is the same for several units")
    return tuple(kept)


def _check(update: Update, stages: dict[int, Stage]) -> None:
    """Raises Unsupported for reductions over parts, and for what other families do better."""
    program = update.program
    reads = False
    for term in stages:
        t = program[term]
        if t.op not in REDUCTIONS or stages[term] == "around":
            continue
        over = set(t.attr("over"))
        for side in (update.rows, update.cols):
            if over & set(side) not in (set(), set(side)):
                raise Unsupported("a reduction over part of a matrix's dimension")
        reads = reads or update.full(t.args[0])
    if not reads:
        raise Unsupported("no matrix is read by a sum")
    if _row_wise(update, stages):
        raise Unsupported("it is row-wise")


def _row_wise(update: Update, terms: Iterable[int]) -> bool:
    """Whether units and rows are alike: sums run along rows alone, and no vector along columns
    differs between units."""
    program, rows = update.program, set[Axis](update.rows)
    for term in terms:
        t = program[term]
        if t.op in REDUCTIONS and set(t.attr("over")) & rows and update.full(t.args[0]):
            return False
        if update.spans(term) == (False, True) and update.leading(term) and t.op == "input":
            return False
    return True
