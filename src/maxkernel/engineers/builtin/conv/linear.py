"""Means over pixels of what is linear in something simpler: mean(a x + b) = a mean(x) + b.

The mean of a normalised convolution needs no second look at the pixels: the statistics say it. The
rewriting is exact; only roundings differ.
"""

from __future__ import annotations

from dataclasses import replace

from maxkernel.engineers.builtin.axes import Axis
from maxkernel.engineers.builtin.build import Builder
from maxkernel.engineers.builtin.terms import REDUCTIONS, Program


def collapsed(program: Program, pixels: frozenset[Axis]) -> Program:
    """The program with the means over pixels moved inwards that wait for other statistics."""
    copy = replace(program, terms=list(program.terms))
    pushing = _Pushing(copy, pixels)
    outputs = [replace(o, term=pushing.rebuilt(o.term)) for o in program.outputs]
    copy.outputs = tuple(outputs)
    return copy


class _Pushing:
    def __init__(self, program: Program, pixels: frozenset[Axis]) -> None:
        self.program = program
        self.pixels = pixels
        self.build = Builder(program)
        self.known: dict[int, int] = {}

    def rebuilt(self, term: int) -> int:
        """A term above the last reduction over pixels, with that reduction moved inwards."""
        if term in self.known:
            return self.known[term]
        t = self.program[term]
        if t.op == "mean" and self.pixels <= set(t.attr("over")):
            self.known[term] = self._mean(term)
        elif not t.args or t.axes & self.pixels:
            self.known[term] = term
        elif t.op in REDUCTIONS:
            self.known[term] = self.build.reduce(t.op, self.rebuilt(t.args[0]), t.attr("over"))
        else:
            args = tuple(self.rebuilt(a) for a in t.args)
            self.known[term] = self.build.apply(t.op, args, **dict(t.attrs))
        return self.known[term]

    def _mean(self, term: int) -> int:
        """A mean that waits for no other statistic stays."""
        t = self.program[term]
        below = self.program.reach(t.args)
        if not any(self.program[b].op in REDUCTIONS for b in below):
            return term
        over: tuple[Axis, ...] = t.attr("over")
        inner = self._pushed(t.args[0], tuple(a for a in over if a in self.pixels))
        rest = tuple(a for a in over if a not in self.pixels)
        return self.build.reduce("mean", inner, rest) if rest else inner

    def _pushed(self, term: int, over: tuple[Axis, ...]) -> int:
        """The mean over all pixels of a term."""
        t = self.program[term]
        if not t.axes & self.pixels:
            return term
        open_args = [bool(self.program[a].axes & self.pixels) for a in t.args]
        linear = t.op in ("add", "sub", "neg") or (t.op == "mul" and sum(open_args) == 1)
        if linear or (t.op == "div" and not open_args[1]):
            return self.build.apply(t.op, tuple(self._pushed(a, over) for a in t.args))
        return self.build.reduce("mean", term, over)
