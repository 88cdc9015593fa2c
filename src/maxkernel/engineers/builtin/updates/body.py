"""The kernel's body: vectors of a whole block first, then one unit after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from maxkernel.engineers.builtin.axes import Axis, Dim, Unsupported
from maxkernel.engineers.builtin.chunks import loaded
from maxkernel.engineers.builtin.expr import Code
from maxkernel.engineers.builtin.glue import GlueScope
from maxkernel.engineers.builtin.hints import hint
from maxkernel.engineers.builtin.module import Module
from maxkernel.engineers.builtin.terms import REDUCTIONS, Term
from maxkernel.engineers.builtin.text import WIDTH, Names, call, doc
from maxkernel.engineers.builtin.updates.match import Update

TAKEN = tuple("unit units row cols down across i together".split())
"""Names that the body uses itself."""
DOWN = '''def down(vector, cols):
    """A row vector along the rows of a matrix: one transpose turns lanes into sublanes."""
    return jnp.broadcast_to(vector, (cols, vector.shape[1])).T
'''
ACROSS = '''def across(vector, cols):
    """A column vector as a row, by one transpose."""
    return jnp.broadcast_to(vector, (vector.shape[0], cols)).T[:1]
'''


@dataclass(frozen=True)
class Block:
    """An array that the kernel reads or writes: its term, Ref, dtype, and scratch where a unit
    needs float32 rows of it that the Ref does not have."""

    term: int
    ref: str
    dtype: str
    scratch: str = ""


@dataclass
class BodyScope(GlueScope):
    """Statements of the body; some terms are there already, and get a name where they are used."""

    handed: dict[int, tuple[str, str]] = field(default_factory=dict[int, tuple[str, str]])
    """Terms that are there: (what to call them, how to read them)."""

    def _value(self, term: int) -> Code:
        if term in self.known or term not in self.handed:
            return super()._value(term)
        name, text = self.handed[term]
        return self._named(term, name, text)

    def _named(self, term: int, name: str, text: str) -> Code:
        name = self.names.new(name)
        self.lines.append(f"{name} = {text}")
        self.known[term] = Code(name)
        return self.known[term]


@dataclass
class UnitScope(BodyScope):
    """Statements for one unit: matrices, vectors as (1, columns) or along rows, single values."""

    results: frozenset[int] = frozenset()
    """Results that something else is made of."""

    def assign(self, term: int, code: Code) -> Code:
        """Give a term a name of its own."""
        t = self.program[term]
        if t.op in REDUCTIONS:
            return self._named(term, "read", code.text)
        if term in self.results:
            return self._named(term, "updated", code.text)
        return super().assign(term, code)

    def _value(self, term: int) -> Code:
        code = super()._value(term)
        unnamed = term in self.results and not code.text.isidentifier()
        return self.assign(term, code) if unnamed else code

    def _reduce(self, t: Term, arg: Code) -> Code:
        code = super()._reduce(t, arg)
        rows, cols = (bool(self.program[t.args[0]].axes & set(g)) for g in self.groups)
        return Code(f"{code.text}[:, :1]") if rows and not cols else code


class _Unit:
    """Writes what is done for unit `i`."""

    def __init__(
        self,
        update: Update,
        reads: list[Block],
        kept: list[Block],
        names: Names,
        module: Module,
    ) -> None:
        self.update = update
        self.helpers = module.helpers
        self.reads = {b.term: b for b in reads}
        self.places = {b.term: b.ref for b in reads} | {b.term: b.scratch for b in kept}
        self.matrix = next(
            b.ref for b in reads if update.full(b.term) and update.lies(b.term) == update.units
        )
        self.shared: dict[Dim, str] = {}
        self.names = names
        read = {a for t in update.stages for a in update.program[t].args}
        self.scope = UnitScope(
            **_common(update, (update.rows, update.cols), self._load, names, module),
            results=frozenset(read.intersection(update.results)),
        )
        for term in update.handed():
            if not update.full(term):
                name = label(update, term)
                self.scope.handed[term] = name, self._vector(term)

    def lines(self, results: list[Block]) -> list[str]:
        """Statements for the results that are made unit by unit."""
        mine = [b for b in results if self.update.stages[b.term] == "unit"]
        codes = self.scope.write([b.term for b in mine])
        stores: list[str] = []
        for block, code in zip(mine, codes, strict=True):
            store = self._store(block, code)
            if len(store) + 8 > WIDTH:
                store = self._store(block, self.scope.assign(block.term, code))
            stores.append(store)
        lines = [*self.scope.lines, *stores]
        row = ["row = pl.ds(i, 1)"] if any("[row, :]" in line for line in lines) else []
        groups = [f"{name}_row = pl.ds(i // {name}, 1)" for name in self.shared.values()]
        return [*row, *groups, *lines]

    def shares(self) -> list[str]:
        """Statements before the loop: how many units share a row of a vector."""
        refs = {self.update.lies(term): ref for term, ref in self.places.items()}
        return [
            f"    {name} = {self.matrix}.shape[0] // {refs[leading]}.shape[0]"
            for leading, name in self.shared.items()
        ]

    def _at(self, term: int) -> str:
        """Where a unit's row of a vector, or its matrix, lies in a block."""
        leading, full = self.update.lies(term), self.update.full(term)
        if not leading:
            return "..."
        if leading == self.update.units:
            return "i" if full else "row, :"
        if leading not in self.shared:
            self.shared[leading] = self.names.new("sharing")
        name = self.shared[leading]
        return f"i // {name}" if full else f"{name}_row, :"

    def _load(self, term: int) -> Code:
        block = self.reads[term]
        return loaded(f"{block.ref}[{self._at(term)}]", block.dtype)

    def _vector(self, term: int) -> str:
        text = f"{self.places[term]}[{self._at(term)}]"
        if self.update.spans(term) != (True, False):
            return text
        self.helpers.add(DOWN)
        return f"down({text}, cols)"

    def _store(self, block: Block, code: Code) -> str:
        rows, cols = self.update.spans(block.term)
        if rows and cols:
            return f"{block.ref}[i] = {_cast(code, block)}"
        text = code.text
        if rows:
            self.helpers.add(ACROSS)
            text = f"across({text}, cols)"
        return f"{block.scratch or block.ref}[row, :] = {text}"


def label(update: Update, term: int) -> str:
    """What to call a term that is brought to the kernel or kept in it."""
    program = update.program
    inputs = {program.input(t).name for t in program.reach([term]) if program[t].op == "input"}
    if len(inputs) == 1 and (program[term].op == "input" or update.stages[term] == "block"):
        return inputs.pop()
    return "decay" if program[term].op == "exp" else hint(program, term)


def body(
    update: Update, reads: list[Block], kept: list[Block], results: list[Block], module: Module
) -> str:
    """Source. `kept` are the vectors that a block's preparation leaves in scratch for its units."""
    refs = [b.ref for b in (*reads, *results)]
    scratch = [b.scratch for b in (*kept, *results) if b.scratch]
    taken = [*TAKEN, *refs, *scratch]
    unit = _Unit(update, reads, kept, Names(taken), module)
    whole = _prepared(update, reads, kept, results, Names(taken), module)
    inner = unit.lines(results)
    matrix = unit.matrix
    lines = [
        call("body", [*refs, *scratch, "*", "together"], 0, "def ", ":"),
        doc("A block of units, a few side by side: they hide one another's latencies.", 4),
        *(f"    {line}" for line in whole),
        *([f"    cols = {matrix}.shape[2]"] if any(", cols)" in t for t in inner) else []),
        *unit.shares(),
        "",
        "    def unit(i):",
        *(f"        {line}" for line in inner),
        "",
        "    def units(c, carry):",
        "        for u in range(together):",
        "            unit(c * together + u)",
        "        return carry",
        "",
        f"    jax.lax.fori_loop(0, {matrix}.shape[0] // together, units, 0)",
        *(
            f"    {b.ref}[...] = {b.scratch}[...].astype({b.ref}.dtype)"
            for b in results
            if b.scratch
        ),
    ]
    return "\n".join(lines)


def _prepared(
    update: Update,
    reads: list[Block],
    kept: list[Block],
    results: list[Block],
    names: Names,
    module: Module,
) -> list[str]:
    """Statements for all units of a block at once: they fill scratch and results."""
    by_term = {b.term: b for b in reads}
    lines: list[str] = []
    for inner in (update.rows, update.cols):
        side = inner is update.rows

        def load(term: int) -> Code:
            return loaded(f"{by_term[term].ref}[...]", by_term[term].dtype)

        scope = BodyScope(**_common(update, (update.units, inner), load, names, module))
        uses = Counter(a for t in update.stages for a in update.program[t].args)
        for term in by_term:
            if not update.full(term) and uses[term] == 1:
                scope.known[term] = load(term)
            elif not update.full(term):
                scope.handed[term] = label(update, term), load(term).text
        mine = [b for b in kept if _side(update, b.term) == side]
        done = [
            b for b in results if update.stages[b.term] == "block" and _side(update, b.term) == side
        ]
        codes = scope.write([b.term for b in (*mine, *done)])
        stores = [f"{b.scratch}[...] = {c.text}" for b, c in zip(mine, codes, strict=False)]
        for b, code in zip(done, codes[len(mine) :], strict=True):
            stores.append(f"{b.ref}[...] = {_cast(code, b)}")
        lines += [*scope.lines, *stores]
    return lines


def _side(update: Update, term: int) -> bool:
    """Whether a vector belongs to the rows; single values go with what they are made of."""
    program = update.program
    for t in reversed(program.reach([term])):
        rows, cols = update.spans(t)
        if rows != cols:
            return rows
    return True


def _cast(code: Code, block: Block) -> str:
    plain = block.dtype in ("float32", "int32")
    return code.text if plain else f"{code.at(100)}.astype({block.ref}.dtype)"


def _common(
    update: Update,
    groups: tuple[Dim, ...],
    load: Callable[[int], Code],
    names: Names,
    module: Module,
) -> dict[str, Any]:
    """Arguments of a scope in the kernel's body."""

    def refuse(over: Dim) -> Code:
        raise Unsupported("an index or a size in an update")

    return {
        "program": update.program,
        "rows": frozenset[Axis](),
        "cols": (),
        "load": load,
        "iota": refuse,
        "size": refuse,
        "names": names,
        "helpers": module.helpers,
        "constants": module.constants,
        "groups": groups,
    }
