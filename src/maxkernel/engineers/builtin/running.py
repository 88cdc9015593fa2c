"""Statistics of rows that are seen one block of columns at a time.

An accumulator is one register wide (128 lanes) per row: blocks are folded into it column by column
and lanes meet only once, at the end. A sum of exponentials shifted by the row's maximum is kept
relative to the maximum so far and rescaled when that grows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from maxkernel.engineers.builtin.axes import Dim, Unsupported
from maxkernel.engineers.builtin.expr import Code, Scope
from maxkernel.engineers.builtin.hints import hint
from maxkernel.engineers.builtin.terms import REDUCTIONS, Program
from maxkernel.engineers.builtin.text import Names

_FOLD = '''def fold(combine, x, lanes):
    """Combines columns `lanes` apart: whole registers, nothing moves between lanes."""
    parts = [x[:, start : start + lanes] for start in range(0, x.shape[1], lanes)]
    return functools.reduce(combine, parts)
'''
_SPREAD = '''def spread(x, width):
    """Repeats a lane-wise statistic along `width` columns."""
    return jnp.concatenate([x] * (width // x.shape[1]), axis=1)
'''
_LOWEST = ("-3e38", "below every float32 in use; exp(LOWEST - x) is 0, never NaN")


@dataclass(frozen=True)
class Statistic:
    """A reduction over all columns. `shift`: for a sum of exp(x - max(x)), the maximum."""

    term: int
    level: int
    """Sweeps over the columns after which it is known."""
    kind: Literal["sum", "mean", "amax", "amin", "expsum"]
    shift: int | None = None


def is_statistic(program: Program, term: int, cols: Dim) -> bool:
    """Whether a term reduces over all of a row's columns, not over runs of them."""
    t = program[term]
    return t.op in REDUCTIONS and not t.axes & set(cols) and bool(set(t.attr("over")) & set(cols))


def statistics(program: Program, terms: Iterable[int], cols: Dim) -> list[Statistic]:
    """The statistics among `terms`, in order, with the sweep that completes each."""
    level: dict[int, int] = {}
    found: dict[int, Statistic] = {}
    for term in sorted(terms):
        t = program[term]
        below = max((level.get(a, 0) for a in t.args), default=0)
        if not is_statistic(program, term, cols):
            level[term] = below
            continue
        shift = _shift(program, term, found)
        if shift is not None:
            found[term] = Statistic(term, found[shift].level, "expsum", shift)
        else:
            kinds: dict[str, Literal["sum", "mean", "amax", "amin"]] = {
                "sum": "sum",
                "mean": "mean",
                "amax": "amax",
                "amin": "amin",
            }
            found[term] = Statistic(term, below + 1, kinds[t.op])
        level[term] = found[term].level
    return list(found.values())


def _shift(program: Program, term: int, found: dict[int, Statistic]) -> int | None:
    """m when the term is sum(exp(x - m)) and m = max(x)."""
    t = program[term]
    power = program[t.args[0]]
    if t.op != "sum" or power.op != "exp" or program[power.args[0]].op != "sub":
        return None
    value, shift = program[power.args[0]].args
    if shift in found and program[shift].op == "amax" and program[shift].args == (value,):
        return shift
    return None


@dataclass
class Accumulators:
    """The Refs that hold a kernel's statistics, and the code that works on them."""

    program: Program
    cols: Dim
    statistics: Sequence[Statistic]
    refs: dict[int, str]
    masked: bool = False
    """Blocks may reach beyond the row: `inside` says which columns count."""

    @staticmethod
    def of(
        program: Program,
        cols: Dim,
        found: Sequence[Statistic],
        names: Names,
        masked: bool = False,
    ) -> Accumulators:
        """One Ref per statistic, named after it."""
        refs = {s.term: names.new(f"{hint(program, s.term)}_ref") for s in found}
        return Accumulators(program, cols, found, refs, masked)

    def start(self, scope: Scope) -> list[str]:
        """Statements that set the accumulators to the value of no columns at all."""
        lines: list[str] = []
        for s in self.statistics:
            if s.kind in ("amax", "amin"):
                scope.constants["LOWEST"] = _LOWEST
            value = {"amax": "LOWEST", "amin": "-LOWEST"}.get(s.kind, "0.0")
            ref = self.refs[s.term]
            lines.append(f"{ref}[...] = jnp.full_like({ref}, {value})")
        return lines

    def update(self, scope: Scope, level: int, width: str) -> list[str]:
        """Statements that fold one chunk of rows of one block of `width` columns in."""
        now = [s for s in self.statistics if s.level == level]
        scope.helpers.add(_FOLD)
        roots = [self._argument(s) for s in now]
        values = dict(zip(roots, scope.write(roots), strict=True))
        for s in now:
            if s.kind == "expsum":
                continue
            pairs = [e for e in now if e.shift == s.term]
            self._fold(scope, s, values[self._argument(s)], pairs, width)
        lines, scope.lines = scope.lines, []
        return lines

    def _argument(self, s: Statistic) -> int:
        if s.kind == "expsum":
            return self.program[self.program[self.program[s.term].args[0]].args[0]].args[0]
        return self.program[s.term].args[0]

    def _fold(
        self, scope: Scope, s: Statistic, value: Code, pairs: list[Statistic], width: str
    ) -> None:
        ref, lines = self.refs[s.term], scope.lines
        if self.masked:
            if s.kind in ("amax", "amin"):
                scope.constants["LOWEST"] = _LOWEST
            neutral = {"amax": "LOWEST", "amin": "-LOWEST"}.get(s.kind, "0.0")
            name = scope.names.new("counted")
            lines.append(f"{name} = jnp.where(inside, {value.text}, {neutral})")
            value = Code(name)
        if not value.text.isidentifier() and (pairs or len(value.text) > 30):
            value = scope.assign(self._argument(s), value)
        if s.kind in ("sum", "mean"):
            lines.append(f"{ref}[rows, :] += fold(jnp.add, {value.text}, lanes)")
            return
        combine = "jnp.maximum" if s.kind == "amax" else "jnp.minimum"
        part = scope.names.new("part")
        lines.append(f"{part} = fold({combine}, {value.text}, lanes)")
        if not pairs:
            lines.append(f"{ref}[rows, :] = {combine}({ref}[rows, :], {part})")
            return
        scope.helpers.add(_SPREAD)
        before, now, exps = (scope.names.new(n) for n in ("before", "now", "exps"))
        lines += [
            f"{before} = {ref}[rows, :]",
            f"{now} = {combine}({before}, {part})",
            f"{exps} = jnp.exp({value.text} - spread({now}, {width}))",
        ]
        for pair in pairs:
            total = self.refs[pair.term]
            lines += [
                f"{total}[rows, :] *= jnp.exp({before} - {now})",
                f"{total}[rows, :] += fold(jnp.add, {exps}, lanes)",
            ]
        lines.append(f"{ref}[rows, :] = {now}")

    def finish(self, scope: Scope, level: int) -> None:
        """Adds the statements that make the statistics of one sweep known to `scope`."""
        for s in self.statistics:
            if s.level != level:
                continue
            ref = self.refs[s.term]
            text = f"{ref}[rows, :]"
            if s.kind == "expsum":
                assert s.shift is not None
                gain, most = scope.names.new("gain"), scope.known[s.shift].text
                scope.lines.append(f"{gain} = jnp.exp({self.refs[s.shift]}[rows, :] - {most})")
                rescaled = scope.names.new("rescaled")
                scope.lines.append(f"{rescaled} = {text} * {gain}")
                text = rescaled
            name = {"amax": "jnp.max", "amin": "jnp.min"}.get(s.kind, "jnp.sum")
            scope.assign(s.term, self._scaled(scope, s, f"{name}({text}, axis=1, keepdims=True)"))

    def _scaled(self, scope: Scope, s: Statistic, text: str) -> Code:
        """A mean divides by the columns; a sum over runs counted every column of a run."""
        present = [a for a in self.cols if a in self.program[self.program[s.term].args[0]].axes]
        repeats = self.program.extent(a for a in self.cols if a not in present)
        if s.kind == "mean":
            return Code(f"{text} / {scope.size(self.cols).at(21)}", 20)
        if s.kind in ("sum", "expsum") and repeats > 1:
            return Code(f"{text} * {1.0 / repeats!r}", 20)
        return Code(text)


def single_sweep(found: Sequence[Statistic]) -> None:
    """Raises Unsupported unless every statistic is known after one sweep."""
    if any(s.level > 1 for s in found):
        raise Unsupported("a statistic of rows follows another one")
