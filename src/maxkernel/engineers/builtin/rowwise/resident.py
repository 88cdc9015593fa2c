"""One pass: whole rows resident in VMEM, worked on a few rows at a time."""

from __future__ import annotations

import re

from maxkernel.engineers.builtin.axes import Dim, Unsupported
from maxkernel.engineers.builtin.expr import Code, Scope
from maxkernel.engineers.builtin.module import Module
from maxkernel.engineers.builtin.rowwise.match import Operand, RowProgram
from maxkernel.engineers.builtin.text import WIDTH, Names, doc

CHUNK = "rows"
"""Name of the slice of rows that the inner loop works on."""


def reference_name(name: str) -> str:
    """The name of a block's Ref."""
    return f"{name}_ref"


def body(rows: RowProgram, arrays: tuple[str, ...], results: list[str], module: Module) -> str:
    """Source of the kernel's body; helpers and constants it needs go to `module`."""
    refs = [reference_name(arrays[o.use.index]) for o in rows.operands]
    out_refs = [reference_name(r) for r in results]
    names = Names([*refs, *out_refs, CHUNK, "cols", "chunk", "chunk_rows", "i", "carry"])
    scope = _scope(rows, arrays, names, module)
    roots = [out.term for out, _ in rows.outputs]
    fixed = _fixed_part(rows, roots)
    for term, code in zip(fixed, scope.write(fixed), strict=True):
        if term not in scope.known and rows.program[term].op not in ("literal", "size", "iota"):
            scope.assign(term, code)
    before, scope.lines = scope.lines, []
    stores: list[str] = []
    for ref, value, (out, _) in zip(out_refs, scope.write(roots), rows.outputs, strict=True):
        store = f"{ref}[{CHUNK}, :] = {_stored(value, out.dtype, ref)}"
        if len(store) + 8 > WIDTH:
            value = scope.assign(out.term, value)
            store = f"{ref}[{CHUNK}, :] = {_stored(value, out.dtype, ref)}"
        stores.append(store)
    inner = [
        f"{CHUNK} = pl.ds(pl.multiple_of(i * chunk_rows, chunk_rows), chunk_rows)",
        *scope.lines,
        *stores,
        "return carry",
    ]
    anchor = reference_name(arrays[rows.anchor.index])
    uses_cols = any(re.search(r"\bcols\b", line) for line in [*before, *inner])
    lines = [
        f"def body({', '.join([*refs, *out_refs])}, *, chunk_rows):",
        doc("One block of rows, a few at a time: short live ranges, little code.", 4),
        *([f"    cols = {anchor}.shape[1]"] if uses_cols else []),
        *(f"    {line}" for line in before),
        "",
        "    def chunk(i, carry):",
        *(f"        {line}" for line in inner),
        "",
        f"    jax.lax.fori_loop(0, {out_refs[0]}.shape[0] // chunk_rows, chunk, 0)",
    ]
    return "\n".join(lines)


def _stored(value: Code, dtype: str, ref: str) -> str:
    if dtype == "float32":
        return value.text
    return f"{value.at(100)}.astype({ref}.dtype)"


def _fixed_part(rows: RowProgram, roots: list[int]) -> list[int]:
    """Values that are the same for every row but used per row: computed before the loop."""
    program = rows.program
    region = program.reach(roots)
    moving = [t for t in region if program[t].axes & set(rows.rows)]
    return sorted({a for t in moving for a in program[t].args if a not in moving})


def _scope(rows: RowProgram, arrays: tuple[str, ...], names: Names, module: Module) -> Scope:
    program = rows.program
    by_term = {o.term: o for o in rows.operands}

    def load(term: int) -> Code:
        return loaded(by_term[term], reference_name(arrays[by_term[term].use.index]))

    def iota(over: Dim) -> Code:
        if over != rows.cols:
            raise Unsupported("an index along rows")
        return Code("jax.lax.broadcasted_iota(jnp.int32, (1, cols), 1)")

    def size(over: Dim) -> Code:
        if over != rows.cols:
            raise Unsupported("a size other than the row's")
        return Code("cols")

    return Scope(
        program, frozenset(rows.rows), frozenset(rows.cols), load, iota, size, names,
        helpers=module.helpers, constants=module.constants,
    )  # fmt: skip


def loaded(operand: Operand, ref: str) -> Code:
    """An operand's values as float32 or int32."""
    if operand.role == "scalar":
        return Code(f"{ref}[0, 0]")
    where = f"{CHUNK}, :" if operand.role in ("full", "row") else "..."
    text, dtype = f"{ref}[{where}]", operand.use.dtype
    if dtype == "bool":
        return Code(f"{text} != 0", 5)
    if dtype in ("float32", "int32"):
        return Code(text)
    kind = "float32" if "float" in dtype else "int32"
    return Code(f"{text}.astype(jnp.{kind})")
