"""Long rows: several sweeps over blocks of columns, statistics first, results in the last one."""

from __future__ import annotations

from maxkernel.engineers.builtin import chunks
from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.expr import Code, Scope
from maxkernel.engineers.builtin.module import Module
from maxkernel.engineers.builtin.rowwise.match import RowProgram
from maxkernel.engineers.builtin.rowwise.resident import row_scope
from maxkernel.engineers.builtin.running import Accumulators, statistics
from maxkernel.engineers.builtin.terms import REDUCTIONS
from maxkernel.engineers.builtin.text import Names, call, doc

_TAKEN = (*chunks.TAKEN, *"cols block_cols lanes sweep j column output finish inside".split())


def count(rows: RowProgram) -> int:
    """Sweeps that a program needs: one per level of statistics, and one for full-size results."""
    found = statistics(rows.program, rows.region.terms, rows.space.cols)
    levels = max((s.level for s in found), default=0)
    return levels + any(r.role == "full" for r in rows.results)


def body(
    rows: RowProgram, arrays: tuple[str, ...], results: list[str], module: Module
) -> tuple[str, list[str]]:
    """(source of the kernel's body, names of the statistics' scratch)."""
    program, cols = rows.program, rows.space.cols
    if any(_over_runs(rows, t) for t in rows.region.terms):
        raise Unsupported("statistics over runs of columns of a long row")
    refs = [f"{arrays[o.use.index]}_ref" for o in rows.operands]
    refs += [f"{name}_ref" for name in results]
    names = Names([*refs, *_TAKEN])
    found = statistics(program, rows.region.terms, cols)
    gathered = Accumulators.of(program, cols, found, names, masked=True)
    scratch = list(gathered.refs.values())
    taken = [*refs, *scratch, *_TAKEN]
    height = f"{refs[-1]}.shape[0]"
    last = count(rows) - 1
    sections: list[str] = []
    for sweep in range(max((s.level for s in found), default=0)):
        scope = _scope(rows, arrays, taken, module)
        for level in range(1, sweep + 1):
            gathered.finish(scope, level)
        known, scope.lines = scope.lines, []
        inner = [*known, *gathered.update(scope, sweep + 1, "block_cols")]
        sections += _section(f"sweep_{sweep}", f"sweep == {sweep}", inner, height)
    for role, when in (("full", f"sweep == {last}"), ("row", _AT_END)):
        stores = [
            chunks.Store(f"{name}_ref", r.term, r.dtype)
            for name, r in zip(results, rows.results, strict=True)
            if r.role == role
        ]
        if stores:
            scope = _scope(rows, arrays, taken, module)
            for level in range(1, last + 2):
                gathered.finish(scope, level)
            known, scope.lines = scope.lines, []
            inner = [*known, *chunks.stores(scope, stores, 12)]
            sections += _section("output" if role == "full" else "finish", when, inner, height)
    lines = [
        call("body", [*refs, *scratch, "*", "chunk_rows", "block_cols", "cols"], 0, "def ", ":"),
        doc("One block of columns in one sweep over a block of rows.", 4),
        "    sweep, j = pl.program_id(1), pl.program_id(2)",
        *([f"    lanes = {scratch[0]}.shape[1]"] if scratch else []),
        *(_COLUMN if found or any(program[t].op == "iota" for t in rows.region.terms) else ()),
        *(
            ["    inside = column < cols  # the last block may reach beyond the row"]
            if found
            else []
        ),
        *_start(gathered, rows, arrays, taken, module),
        *sections,
    ]
    return "\n".join(lines), scratch


_COLUMN = (
    "    column = jax.lax.broadcasted_iota(jnp.int32, (1, block_cols), 1)",
    "    column += j * block_cols",
)
_AT_END = "(sweep == SWEEPS - 1) & (j == pl.num_programs(2) - 1)"


def _over_runs(rows: RowProgram, term: int) -> bool:
    t = rows.program[term]
    return t.op in REDUCTIONS and bool(t.axes & set(rows.space.cols))


def _scope(rows: RowProgram, arrays: tuple[str, ...], taken: list[str], module: Module) -> Scope:
    scope = row_scope(rows, arrays, Names(taken), module)
    for term in rows.region.terms:
        if rows.program[term].op == "iota":
            scope.known[term] = Code("column")
    return scope


def _start(
    gathered: Accumulators,
    rows: RowProgram,
    arrays: tuple[str, ...],
    taken: list[str],
    module: Module,
) -> list[str]:
    lines = gathered.start(_scope(rows, arrays, taken, module))
    if not lines:
        return []
    return [
        "",
        "    @pl.when((sweep == 0) & (j == 0))",
        "    def start():",
        *(f"        {line}" for line in lines),
    ]


def _section(name: str, when: str, inner: list[str], height: str) -> list[str]:
    return [
        "",
        f"    @pl.when({when})",
        f"    def {name}():",
        *chunks.loop(inner, height, 8)[1:],
    ]
