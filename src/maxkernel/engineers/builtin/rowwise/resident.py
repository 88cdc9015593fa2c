"""One pass: whole rows resident in VMEM, worked on a few rows at a time."""

from __future__ import annotations

import re

from maxkernel.engineers.builtin import chunks
from maxkernel.engineers.builtin.axes import Dim, Unsupported
from maxkernel.engineers.builtin.expr import Code, Scope
from maxkernel.engineers.builtin.module import Module
from maxkernel.engineers.builtin.rowwise.match import RowProgram
from maxkernel.engineers.builtin.text import Names, doc


def body(rows: RowProgram, arrays: tuple[str, ...], results: list[str], module: Module) -> str:
    """Source of the kernel's body; helpers and constants it needs go to `module`."""
    refs = [f"{arrays[o.use.index]}_ref" for o in rows.operands]
    out_refs = [f"{name}_ref" for name in results]
    scope = row_scope(rows, arrays, Names([*refs, *out_refs, "cols", *chunks.TAKEN]), module)
    outputs = [
        chunks.Store(ref, result.term, result.dtype)
        for ref, result in zip(out_refs, rows.results, strict=True)
    ]
    before = chunks.hoisted(scope, [o.term for o in outputs], frozenset(rows.space.rows))
    inner = chunks.stores(scope, outputs, 8)
    uses_cols = any(re.search(r"\bcols\b", line) for line in [*before, *inner])
    lines = [
        f"def body({', '.join([*refs, *out_refs])}, *, chunk_rows):",
        doc("One block of rows, a few at a time: short live ranges, little code.", 4),
        *([f"    cols = {arrays[rows.anchor.index]}_ref.shape[1]"] if uses_cols else []),
        *(f"    {line}" for line in before),
        *chunks.loop(inner, f"{out_refs[0]}.shape[0]", 4),
    ]
    return "\n".join(lines)


def row_scope(rows: RowProgram, arrays: tuple[str, ...], names: Names, module: Module) -> Scope:
    """A scope whose blocks are a chunk of whole rows."""
    by_term = {o.term: o for o in rows.operands}
    where = {"full": "rows, :", "row": "rows, :", "col": "...", "scalar": "0, 0"}

    def load(term: int) -> Code:
        operand = by_term[term]
        text = f"{arrays[operand.use.index]}_ref[{where[operand.role]}]"
        return Code(text) if operand.role == "scalar" else chunks.loaded(text, operand.use.dtype)

    def iota(over: Dim) -> Code:
        if over != rows.space.cols:
            raise Unsupported("an index along rows")
        return Code("jax.lax.broadcasted_iota(jnp.int32, (1, cols), 1)")

    def size(over: Dim) -> Code:
        if over != rows.space.cols:
            raise Unsupported("a size other than the row's")
        return Code("cols")

    return Scope(
        program=rows.program,
        rows=frozenset(rows.space.rows),
        cols=rows.space.cols,
        load=load,
        iota=iota,
        size=size,
        names=names,
        helpers=module.helpers,
        constants=module.constants,
        narrow=all(o.use.dtype != "float32" for o in rows.operands if o.role == "full"),
    )
