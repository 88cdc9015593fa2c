"""What XLA does around the kernel: gates before it, and what needs several units after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from maxkernel.engineers.builtin.axes import Dim, Unsupported
from maxkernel.engineers.builtin.expr import Code
from maxkernel.engineers.builtin.glue import (
    GlueScope,
    as_computed,
    as_output,
    runs_of,
    whole_scope,
)
from maxkernel.engineers.builtin.module import Module, Shapes
from maxkernel.engineers.builtin.operands import flat
from maxkernel.engineers.builtin.terms import REDUCTIONS, Output
from maxkernel.engineers.builtin.text import Names, statement
from maxkernel.engineers.builtin.updates.match import Update


@dataclass(frozen=True)
class Around:
    """Statements on whole arrays, whose dimensions are groups of axes."""

    update: Update
    groups: tuple[Dim, ...]
    scope: GlueScope
    shapes: Shapes

    @staticmethod
    def of(
        update: Update, roots: Iterable[int], known: Iterable[int], shapes: Shapes, names: Names,
        module: Module,
    ) -> Around:  # fmt: skip
        """For statements that make `roots`, where `known` are there already."""
        program, stop = update.program, frozenset(known)
        terms = program.reach(roots, stop=stop.__contains__)
        sets = [program[t].axes for t in terms]
        sets += [frozenset(program[t].attr("over")) for t in terms if program[t].op in REDUCTIONS]
        sets += [frozenset(side) for side in (update.units, update.rows, update.cols)]
        used = frozenset[int]().union(*(program[t].axes for t in terms))
        order = [a for a in (*update.units, *update.rows, *update.cols) if a in used]
        groups = runs_of(order, sets)
        reduces = any(program[t].op in REDUCTIONS for t in terms)

        def load(term: int) -> Code:
            use = program.input(term)
            last = use.dims and use.dims == groups[len(groups) - len(use.dims) :]
            name = shapes.arrays[use.index]
            plain = last and (not reduces or use.dims == groups)
            text = name if plain else _laid(groups, name, use.dims, shapes)
            return as_computed(program, term, text)

        def iota(over: Dim) -> Code:
            if over not in groups:
                raise Unsupported("an index along part of a dimension")
            shape = ", ".join(shapes.dim(g) if g == over else "1" for g in groups)
            place = groups.index(over)
            comma = "," if len(groups) == 1 else ""
            return Code(f"jax.lax.broadcasted_iota(jnp.int32, ({shape}{comma}), {place})")

        scope = whole_scope(program, groups, load, iota, shapes, names, module)
        uses = Counter(a for t in terms for a in program[t].args)
        once = [t for t in terms if program[t].op == "input" and uses[t] < 2 and t not in stop]
        scope.known.update({t: load(t) for t in once})
        return Around(update, groups, scope, shapes)

    def statements(self) -> list[str]:
        """What was written since the last call."""
        lines, self.scope.lines = self.scope.lines, []
        return lines

    def array(self, term: int, name: str) -> str:
        """A term as the kernel takes it, (units, size): an expression."""
        update, shapes = self.update, self.shapes
        rows, cols = update.spans(term)
        size = "rows" if rows else "cols" if cols else "1"
        cast = ".astype(jnp.int32)" if update.program[term].kind == "bool" else ""
        if update.program[term].op == "input":
            use = update.program.input(term)
            if flat(use.dims) == update.places[term] + update.inner(term):
                plain = as_computed(update.program, term, shapes.arrays[use.index])
                return f"{plain.at(100)}.reshape(-1, {size}){cast}"
        (code,) = self.scope.write([term])
        if update.program[term].op != "input":
            name = self.scope.names.new(name)
            self.scope.lines.append(f"{name} = {code.text}")
            code = self.scope.known[term] = Code(name)
        text, axes = code.at(100), update.program[term].axes
        whole = {*update.places[term]} | {a for a in axes if a not in update.units}
        if whole - axes:
            sizes = [shapes.dim(g) if whole & set(g) else "1" for g in self._with(update.units)]
            spread = self.scope.names.new(f"{name}_spread")
            given = [
                self._reshaped(text, axes),
                f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})",
            ]
            self.scope.lines += statement("jnp.broadcast_to", given, spread).split("\n")
            text = spread
        return f"{text}.reshape(-1, {size}){cast}"

    def _with(self, units: Dim) -> list[Dim]:
        """The groups, and those axes of units that none of them has, in order."""
        have = {a for g in self.groups for a in g}
        more = [(a,) for a in units if a not in have]
        order = {a: i for i, a in enumerate((*units, *flat(self.groups)))}
        return sorted([*self.groups, *more], key=lambda g: order[g[0]])

    def _reshaped(self, text: str, axes: frozenset[int]) -> str:
        groups = self._with(self.update.units)
        if len(groups) == len(self.groups):
            return text
        sizes = [self.shapes.dim(g) if axes & set(g) else "1" for g in groups]
        return f"{text}.reshape({', '.join(sizes)})"

    def know(self, term: int, name: str) -> None:
        """A result of the kernel, (units, size), as these statements read it."""
        axes = self.update.program[term].axes
        sizes = [self.shapes.dim(g) if axes & set(g) else "1" for g in self.groups]
        self.scope.assign(term, Code(f"{name}.reshape({', '.join(sizes)})"))

    def output(self, output: Output) -> str:
        """The expression of an output."""
        (code,) = self.scope.write([output.term])
        if not code.text.isidentifier():
            code = self.scope.assign(output.term, code)
        return as_output(code.text, output, self.update.program, self.groups, self.shapes)


def _laid(groups: tuple[Dim, ...], text: str, dims: tuple[Dim, ...], shapes: Shapes) -> str:
    """An input with one dimension per group, of size 1 where it has none of its axes."""
    lies = flat(dims)
    order: list[Dim] = []
    for axis in lies:
        group = next(g for g in groups if axis in g)
        if group not in order:
            order.append(group)
    if flat(order) != lies:
        raise Unsupported("an input of the statements around the kernel lies in another order")
    wanted = [g for g in groups if g in order]
    if order != wanted:
        sizes = ", ".join(shapes.dim(g) for g in order)
        turn = ", ".join(str(order.index(g)) for g in wanted)
        text = f"{text}.reshape({sizes}).transpose({turn})"
    sizes = ", ".join(shapes.dim(g) if g in order else "1" for g in groups)
    return f"{text}.reshape({sizes})"
