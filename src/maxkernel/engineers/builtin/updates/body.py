"""The kernel's body: a block of units, some at a time, as arrays with the units first."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from maxkernel.engineers.builtin.axes import Axis, Dim, Unsupported
from maxkernel.engineers.builtin.chunks import loaded
from maxkernel.engineers.builtin.expr import REDUCE, Code, Scope
from maxkernel.engineers.builtin.hints import hint
from maxkernel.engineers.builtin.module import Module
from maxkernel.engineers.builtin.terms import REDUCTIONS, Term
from maxkernel.engineers.builtin.text import WIDTH, Names, call, doc
from maxkernel.engineers.builtin.updates.match import Update

TAKEN = tuple("body chunk units carry c together".split())
"""Names that the body uses itself."""


@dataclass(frozen=True)
class Block:
    """An array that the kernel reads or writes: its term, Ref and dtype."""

    term: int
    ref: str
    dtype: str


def body(update: Update, reads: list[Block], results: list[Block], module: Module) -> str:
    """Source."""
    refs = [b.ref for b in (*reads, *results)]
    names = Names([*TAKEN, *refs])
    matrix = next(
        b.ref for b in reads if update.full(b.term) and update.places[b.term] == update.units
    )
    scope = _scope(update, reads, names, module)
    inner = _stores(scope, results)
    lines = [
        call("body", [*refs, "*", "together"], 0, "def ", ":"),
        doc("A block of units, some at a time.", 4),
        *(
            f"    {name} = {matrix}.shape[0] // {_of(update, reads, leading)}.shape[0]"
            for leading, name in scope.sharing.items()
        ),
        "",
        "    def chunk(c, carry):",
        "        units = pl.ds(pl.multiple_of(c * together, together), together)",
        *(
            f"        {rows} = pl.ds(c * (together // {n}), together // {n})"
            for n, rows in ((n, scope.rows_of[n]) for n in scope.sharing.values())
        ),
        *(f"        {line}" for line in inner),
        "        return carry",
        "",
        f"    jax.lax.fori_loop(0, {matrix}.shape[0] // together, chunk, 0)",
    ]
    return "\n".join(lines)


def label(update: Update, term: int) -> str:
    """What to call a term that is brought to the kernel."""
    program = update.program
    if program[term].op == "input":
        return program.input(term).name
    return "decay" if program[term].op == "exp" else hint(program, term)


def _only_input(update: Update, term: int) -> str | None:
    """The one input that a term is made of."""
    program = update.program
    names = {program.input(t).name for t in program.reach([term]) if program[t].op == "input"}
    return names.pop() if len(names) == 1 else None


@dataclass
class BodyScope(Scope):
    """Statements for some units: matrices are (units, rows, columns), vectors (units, size), single
    values (units, 1)."""

    update: Update = field(kw_only=True)
    reads: dict[int, Block] = field(kw_only=True)
    named: frozenset[int] = frozenset()
    """Results that something else is made of."""
    sharing: dict[Dim, str] = field(default_factory=dict[Dim, str])
    """Names of how many units share an array that has these axes of units."""
    rows_of: dict[str, str] = field(default_factory=dict[str, str])
    """Names of the slices of such arrays."""
    spread: dict[str, str] = field(default_factory=dict[str, str])
    """Names of what was repeated, by its text."""

    def assign(self, term: int, code: Code) -> Code:
        """Give a term a name of its own."""
        return self._called(term, self._hint(term), code.text)

    def _hint(self, term: int) -> str:
        program, full = self.program, self.update.full
        t = program[term]
        if term in self.named:
            return "updated"
        if t.op in REDUCTIONS and full(t.args[0]):
            return "read"
        if full(term) and any(u.args == (term,) and u.op in REDUCTIONS for u in program.terms):
            return "weighted"
        name = _only_input(self.update, term)
        return name if name and any(self.update.spans(term)) else hint(program, term)

    def _value(self, term: int) -> Code:
        if term in self.known:
            return self.known[term]
        if term in self.reads:
            block = self.reads[term]
            text = f"{block.ref}[{self.at(term)}]"
            return self._called(term, label(self.update, term), loaded(text, block.dtype).text)
        code = super()._value(term)
        unnamed = term in self.named and not code.text.isidentifier()
        return self.assign(term, code) if unnamed else code

    def _called(self, term: int, name: str, text: str) -> Code:
        name = self.names.new(name)
        self.lines.append(f"{name} = {text}")
        self.known[term] = Code(name)
        return self.known[term]

    def at(self, term: int) -> str:
        """Where the units' part of an array lies in its block."""
        place = self.update.places[term]
        if not place:
            return "..."
        rows = "units" if place == self.update.units else self.rows_of[self._shared(place)]
        return rows if self.update.full(term) else f"{rows}, :"

    def _shared(self, place: Dim) -> str:
        if place not in self.sharing:
            name = self.sharing[place] = self.names.new("sharing")
            self.rows_of[name] = self.names.new("shared")
        return self.sharing[place]

    def _apply(self, t: Term, args: list[Code]) -> Code:
        if t.op not in REDUCTIONS:
            places = [self.update.places.get(a, ()) for a in t.args]
            whole = max(places, key=len)
            args = [self._fitted(t, whole, a, c) for a, c in zip(t.args, args, strict=True)]
        return super()._apply(t, args)

    def _fitted(self, t: Term, whole: Dim, term: int, code: Code) -> Code:
        """An operand with the dimensions of the result, of size 1 where it is the same."""
        update = self.update
        place = update.places.get(term)
        if place is None:
            return code
        if place and place != whole:
            repeats = self._shared(place)
            if whole != update.units:
                repeats = f"{repeats} // {self._shared(whole)}"
            code = self._repeated(term, code, repeats)
        rows, cols = (bool(t.axes & set(side)) for side in (update.rows, update.cols))
        if not (rows and cols) or update.full(term):
            return code
        _, cols = update.spans(term)
        return Code(f"{code.at(100)}[{':, None, :' if cols else ':, :, None'}]")

    def _repeated(self, term: int, code: Code, repeats: str) -> Code:
        """An operand for all units that share it."""
        if not code.text.isidentifier():
            code = self.assign(term, code)
        text = f"jnp.repeat({code.text}, {repeats}, axis=0)"
        if text not in self.spread:
            self.spread[text] = self.names.new(_only_input(self.update, term) or "shared_value")
            self.lines.append(f"{self.spread[text]} = {text}")
        return Code(self.spread[text])

    def _reduce(self, t: Term, arg: Code) -> Code:
        """Along rows, columns or both; what was read of matrices are vectors or single values."""
        update, name = self.update, REDUCE[t.op]
        (inside,) = t.args
        if not update.full(inside):
            return Code(f"{name}({arg.text}, axis=1, keepdims=True)")
        if not update.places[inside]:
            raise Unsupported("a matrix that all units share is read alone")
        over = set[Axis](t.attr("over"))
        if over >= {*update.rows, *update.cols}:
            return Code(f"{name}({name}({arg.text}, axis=2), axis=1, keepdims=True)")
        return Code(f"{name}({arg.text}, axis={1 if over & set(update.rows) else 2})")


def _scope(update: Update, reads: list[Block], names: Names, module: Module) -> BodyScope:
    def refuse(_: Any) -> Code:
        raise Unsupported("an index or a size in an update")

    inside = [t for t in update.places if t not in update.around]
    read = frozenset(a for t in inside for a in update.program[t].args)
    return BodyScope(
        program=update.program,
        rows=frozenset(update.rows),
        cols=update.cols,
        load=refuse,
        iota=refuse,
        size=refuse,
        names=names,
        helpers=module.helpers,
        constants=module.constants,
        update=update,
        reads={b.term: b for b in reads},
        named=read.intersection(update.results),
    )


def _stores(scope: BodyScope, results: list[Block]) -> list[str]:
    codes = scope.write([b.term for b in results])
    stores: list[str] = []
    for block, code in zip(results, codes, strict=True):
        store = _store(scope, block, code)
        if len(store) + 8 > WIDTH:
            store = _store(scope, block, scope.assign(block.term, code))
        stores.append(store)
    return [*scope.lines, *stores]


def _store(scope: BodyScope, block: Block, code: Code) -> str:
    plain = block.dtype in ("float32", "int32")
    text = code.text if plain else f"{code.at(100)}.astype({block.ref}.dtype)"
    return f"{block.ref}[{scope.at(block.term)}] = {text}"


def _of(update: Update, reads: list[Block], leading: Dim) -> str:
    return next(b.ref for b in reads if update.places[b.term] == leading)
