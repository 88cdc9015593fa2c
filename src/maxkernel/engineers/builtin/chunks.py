"""The inner loop of a kernel's body: a block is worked on a few rows at a time.

Short live ranges keep values in registers, and the unrolled code stays small enough to compile in
seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from maxkernel.engineers.builtin.axes import Axis
from maxkernel.engineers.builtin.expr import Code, Scope
from maxkernel.engineers.builtin.text import WIDTH

ROWS = "rows"
"""Name of the slice of rows that the loop works on."""
COLS = "cols"
"""Name of the slice of columns, where the loop has one."""
TAKEN = (ROWS, COLS, *"chunk chunk_rows chunk_cols finish_rows tall wide start c carry".split())
"""Names that the loop uses itself."""


@dataclass(frozen=True)
class Store:
    """One result of a block: its Ref, the term stored there, and the Ref's dtype."""

    ref: str
    term: int
    dtype: str
    where: str = f"{ROWS}, :"


def hoisted(scope: Scope, roots: Sequence[int], moving: frozenset[Axis]) -> list[str]:
    """Statements for what `roots` need and is the same for every row; they go before the loop."""
    program = scope.program
    region = program.reach(roots, stop=scope.known.__contains__)
    inside = {t for t in region if program[t].axes & moving}
    needed = {a for t in inside if t not in scope.known for a in program[t].args}
    fixed = sorted(needed - inside)
    for term, code in zip(fixed, scope.write(fixed), strict=True):
        if term not in scope.known and program[term].op not in ("literal", "size"):
            scope.assign(term, code)
    lines, scope.lines = scope.lines, []
    return lines


def stores(scope: Scope, results: Sequence[Store], indent: int) -> list[str]:
    """Statements that compute and store a block's results."""
    texts: list[str] = []
    for result, value in zip(results, scope.write([r.term for r in results]), strict=True):
        text = _store(result, value)
        if len(text) + indent > WIDTH:
            text = _store(result, scope.assign(result.term, value))
        texts.append(text)
    lines, scope.lines = scope.lines, []
    return [*lines, *texts]


def _store(result: Store, value: Code) -> str:
    cast = "" if result.dtype in ("float32", "int32") else f".astype({result.ref}.dtype)"
    text = f"{value.at(100)}{cast}" if cast else value.text
    return f"{result.ref}[{result.where}] = {text}"


def loop(inner: Sequence[str], length: str, indent: int, step: str = "chunk_rows") -> list[str]:
    """A loop over chunks of `step` rows around statements; `length` is the block's height."""
    pad = " " * indent
    slice_rows = f"{ROWS} = pl.ds(pl.multiple_of(c * {step}, {step}), {step})"
    return [
        "",
        f"{pad}def chunk(c, carry):",
        *(f"{pad}    {line}" for line in (slice_rows, *inner, "return carry")),
        "",
        f"{pad}jax.lax.fori_loop(0, {length} // {step}, chunk, 0)",
    ]


def tile_loop(inner: Sequence[str], ref: str) -> list[str]:
    """A loop over chunks of rows and columns of the block that `ref` holds."""
    return [
        f"    tall = {ref}.shape[0] // chunk_rows",
        f"    wide = {ref}.shape[1] // chunk_cols",
        "",
        "    def chunk(c, carry):",
        f"        {ROWS} = pl.ds(pl.multiple_of(c % tall * chunk_rows, chunk_rows), chunk_rows)",
        f"        {COLS} = slice(None)",
        "        if wide > 1:",
        "            start = pl.multiple_of(c // tall * chunk_cols, chunk_cols)",
        f"            {COLS} = pl.ds(start, chunk_cols)",
        *(f"        {line}" for line in (*inner, "return carry")),
        "",
        "    jax.lax.fori_loop(0, tall * wide, chunk, 0)",
    ]


def loaded(text: str, dtype: str) -> Code:
    """Values read from a Ref, as float32 or int32."""
    if dtype == "bool":
        return Code(f"{text} != 0", 5)
    if dtype in ("float32", "int32"):
        return Code(text)
    kind = "float32" if "float" in dtype else "int32"
    return Code(f"{text}.astype(jnp.{kind})")
