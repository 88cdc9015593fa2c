"""Recognises updates: programs that are independent per unit, a matrix of an array that stands at
one index of its leading dimensions (sequences, heads)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from maxkernel.engineers.builtin.axes import Axis, Dim, Unsupported
from maxkernel.engineers.builtin.operands import flat
from maxkernel.engineers.builtin.terms import REDUCTIONS, InputUse, Program

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

    XLA computes the terms of `around` before the kernel and those of `after` from its results. The
    others are the kernel's: `places` are the axes of units that a term's array has there, none
    or the first ones where neighbours share it. `results` are what it writes, in order.
    """

    program: Program
    anchor: InputUse
    units: Dim
    rows: Dim
    cols: Dim
    around: frozenset[int]
    places: dict[int, Dim]
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

    def inner(self, term: int) -> Dim:
        """The axes of rows and columns of an array that a term's value differs along."""
        rows, cols = self.spans(term)
        return (self.rows if rows else ()) + (self.cols if cols else ())

    def leading(self, term: int) -> Dim:
        """The axes of units that a term depends on, in order."""
        return tuple(a for a in self.units if a in self.program[term].axes)

    def lies(self, term: int) -> Dim:
        """The axes of units that an array from outside has in the kernel: all, unless those that
        it depends on come first, so that a few neighbours share a row."""
        leading, extent = self.leading(term), self.program.extent
        first = leading == self.units[: len(leading)]
        few = not leading or extent(self.units) <= MOST_SHARED * extent(leading)
        return leading if first and few else self.units

    def brought(self) -> list[int]:
        """Terms that the kernel gets from outside, inputs and what XLA computed, in order."""
        inside = [t for t in self.places if t not in self.around]
        found = {t for t in inside if self.program[t].op == "input"}
        found.update(a for t in inside for a in self.program[t].args if a in self.around)
        return sorted(found)


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
    empty = frozenset[int]()
    found = Update(program, anchor, units, rows, cols, empty, {}, empty, ())
    around = _around(found, live)
    places = _places(found, live, around)
    found = replace(found, around=around, places=places)
    found = replace(found, after=_after(found, live))
    found = replace(found, results=_results(found))
    needed = set(program.reach(found.results))
    kept = {t: place for t, place in places.items() if t in needed}
    found = replace(found, places=kept)
    _check(found)
    return found


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


def _around(update: Update, live: list[int]) -> frozenset[int]:
    """What XLA computes before the kernel: gates, and inputs that do not lie as its arrays do."""
    program = update.program
    everything = {*update.units, *update.rows, *update.cols}
    found = set[int]()
    for term in live:
        t = program[term]
        if not t.axes <= everything:
            raise Unsupported("dimensions that the largest input does not have")
        if t.op == "iota" and not t.axes <= set(update.units):
            raise Unsupported("an index of rows or columns of the matrices")
        args = [a for a in t.args if program[a].op not in _NEUTRAL]
        outside = not _taken(update, term) if t.op == "input" else set(args) <= found
        if t.op not in _NEUTRAL and outside:
            found.add(term)
    for term in found:
        if update.full(term):
            raise Unsupported("a matrix lies in another order than the largest input")
    return frozenset(found)


def _taken(update: Update, term: int) -> bool:
    """Whether the kernel takes an input as it lies: vectors and matrices in order."""
    use = update.program.input(term)
    inner = update.inner(term)
    in_order = flat(use.dims) == update.leading(term) + inner
    shares = update.lies(term) == update.leading(term)
    return bool(inner) and in_order and shares and use.dtype != "bool"


def _places(update: Update, live: list[int], around: frozenset[int]) -> dict[int, Dim]:
    """The axes of units that each term's array has in the kernel."""
    program = update.program
    places: dict[int, Dim] = {}
    for term in live:
        t = program[term]
        if term in around or t.op == "input":
            places[term] = update.lies(term)
        elif t.op not in _NEUTRAL:
            places[term] = max((places[a] for a in t.args if a in places), key=len, default=())
    return places


def _after(update: Update, live: list[int]) -> frozenset[int]:
    """What follows from the kernel's results but needs several units, and what only that needs."""
    program, found = update.program, set[int]()
    mine = [t for t in live if t in update.places and t not in update.around]
    for term in mine:
        if _leaves(update, term, found):
            if update.full(term):
                raise Unsupported("a matrix follows from a reduction over units")
            found.add(term)
    outputs = {o.term for o in program.outputs}
    users: dict[int, set[int]] = {}
    for term in live:
        for arg in program[term].args:
            users.setdefault(arg, set()).add(term)
    for term in reversed(mine):
        t = program[term]
        read = any(update.full(a) for a in t.args)
        if t.op != "input" and term not in outputs and not read and users[term] <= found:
            found.add(term)
    return frozenset(found)


def _leaves(update: Update, term: int, after: set[int]) -> bool:
    t = update.program[term]
    if any(a in after for a in t.args):
        return True
    return t.op in REDUCTIONS and bool(set(t.attr("over")) & set(update.units))


def _results(update: Update) -> tuple[int, ...]:
    """Outputs that the kernel computes, and what XLA goes on from."""
    program, after = update.program, update.after
    found = [o.term for o in program.outputs]
    found += sorted(a for t in after for a in program[t].args)
    outside = update.around | after
    kept = [
        t
        for t in dict.fromkeys(found)
        if t in update.places and t not in outside and program[t].op != "input"
    ]
    if any(update.places[t] != update.leading(t) or not update.leading(t) for t in kept):
        raise Unsupported("a result is the same for several units")
    return tuple(kept)


def _check(update: Update) -> None:
    """Raises Unsupported for reductions over parts, and for what other families do better."""
    program = update.program
    reads = False
    for term in update.places:
        t = program[term]
        if t.op not in REDUCTIONS or term in update.around:
            continue
        over = set(t.attr("over"))
        for side in (update.rows, update.cols):
            if over & set(side) not in (set(), set(side)):
                raise Unsupported("a reduction over part of a matrix's dimension")
        reads = reads or update.full(t.args[0])
    if not reads:
        raise Unsupported("no matrix is read by a sum")
    if not any(update.full(t) for t in update.results):
        raise Unsupported("no matrix is a result")
    if _row_wise(update):
        raise Unsupported("it is row-wise")


def _row_wise(update: Update) -> bool:
    """Whether units and rows are alike: sums run along rows alone, and no vector along columns
    differs between units."""
    program, rows = update.program, set[Axis](update.rows)
    for term in update.places:
        t = program[term]
        if t.op in REDUCTIONS and set(t.attr("over")) & rows and update.full(t.args[0]):
            return False
        if update.spans(term) == (False, True) and update.leading(term):
            return False
    return True
