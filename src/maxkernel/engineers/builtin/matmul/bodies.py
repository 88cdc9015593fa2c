"""Bodies of matrix-product kernels, one per strategy."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from maxkernel.engineers.builtin import chunks
from maxkernel.engineers.builtin.expr import Code, Scope
from maxkernel.engineers.builtin.matmul.arguments import Argument
from maxkernel.engineers.builtin.matmul.match import MatmulProgram
from maxkernel.engineers.builtin.matmul.parts import epilogue_scope, product_code
from maxkernel.engineers.builtin.module import Module
from maxkernel.engineers.builtin.running import Accumulators, single_sweep, statistics
from maxkernel.engineers.builtin.text import Names, call, doc

_COLUMNS = (
    "    columns = slice(None)",
    "    if block_n < wide_ref.shape[-1]:",
    "        columns = pl.ds(pl.multiple_of(column_0, block_n), block_n)",
)
"""A lone block may have any width; only several need to be aligned."""
_TAKEN = (*chunks.TAKEN, "dot", "n", "step", "finish", "column_0", "columns", "block_n")


def whole_depth(
    matmul: MatmulProgram, args: tuple[Argument, ...], results: list[str], module: Module
) -> str:
    """No axis over k: whole products, and the epilogue in the same step."""
    refs = _refs(args, results)
    names = Names([*refs, *_TAKEN])
    _, inner, product = product_code(matmul, args, names, module, cols=True)
    scope = epilogue_scope(matmul, "tile", args, names, module, chunks.COLS)
    scope.known[matmul.term] = Code(names.new("product"))
    outputs = [replace(s, where=f"{chunks.ROWS}, {chunks.COLS}") for s in _stores(matmul, results)]
    inner += [f"{scope.known[matmul.term].text} = {product}", *chunks.stores(scope, outputs, 8)]
    lines = [
        *_head(refs, ["chunk_rows", "chunk_cols"], "One block of the result, chunk by chunk."),
        *chunks.tile_loop(inner, f"{results[0]}_ref"),
    ]
    return "\n".join(lines)


def accumulated(
    matmul: MatmulProgram, args: tuple[Argument, ...], results: list[str], module: Module
) -> str:
    """An axis over k: partial products in an accumulator, the epilogue with the last of them."""
    refs = [*_refs(args, results), "acc_ref"]
    names = Names([*refs, *_TAKEN])
    before, inner, product = product_code(matmul, args, names, module)
    scope = epilogue_scope(matmul, "tile", args, names, module)
    total = scope.known[matmul.term] = Code(names.new("product"))
    outputs = _stores(matmul, results)
    fixed = chunks.hoisted(scope, [o.term for o in outputs], frozenset(matmul.space.rows))
    last = [
        *inner,
        f"{total.text} = {product}",
        "if steps > 1:",
        f"    {total.text} += acc_ref[rows, :]",
        *chunks.stores(scope, outputs, 12),
    ]
    height = f"{results[0]}_ref.shape[0]"
    lines = [
        *_head(
            refs, ["chunk_rows", "steps"], "One partial product; the last one has the epilogue."
        ),
        "    step = pl.program_id(AXIS)",
        *_indented(before, 4),
        "",
        "    @pl.when((step == 0) & (steps > 1))",
        "    def first():",
        *chunks.loop([*inner, f"acc_ref[rows, :] = {product}"], height, 8)[1:],
        "",
        "    @pl.when((step > 0) & (step < steps - 1))",
        "    def middle():",
        *chunks.loop([*inner, f"acc_ref[rows, :] += {product}"], height, 8)[1:],
        "",
        "    @pl.when(step == steps - 1)",
        "    def last():",
        *_indented(fixed, 8),
        *chunks.loop(last, height, 8)[(0 if fixed else 1) :],
    ]
    axis = "3" if matmul.batch else "2"
    return "\n".join(lines).replace("AXIS", axis)


def whole_rows(
    matmul: MatmulProgram,
    cut: int,
    args: tuple[Argument, ...],
    results: list[str],
    module: Module,
) -> str:
    """Blocks of `cut`, the last term before the rows' statistics, gather in VMEM; with the last
    block of a row the rest of the epilogue runs on whole rows."""
    refs = [*_refs(args, results), "wide_ref"]
    names = Names([*refs, *_TAKEN])
    before, inner, product = product_code(matmul, args, names, module)
    tile = epilogue_scope(matmul, "tile", args, names, module)
    tile.known[matmul.term] = Code(names.new("product"))
    gather = [chunks.Store("wide_ref", cut, "", "rows, columns")]
    moving = frozenset(matmul.space.rows)
    before += chunks.hoisted(tile, [cut], moving)
    inner += [f"{tile.known[matmul.term].text} = {product}", *chunks.stores(tile, gather, 8)]
    wide = epilogue_scope(matmul, "wide", args, names, module)
    wide.known[cut] = Code(names.new("whole"))
    outputs = _stores(matmul, results)
    fixed = chunks.hoisted(wide, [o.term for o in outputs], moving)
    rest = [
        f"{wide.known[cut].text} = wide_ref[rows, :].astype(jnp.float32)",
        *chunks.stores(wide, outputs, 12),
    ]
    finish = chunks.loop(rest, f"{results[0]}_ref.shape[0]", 8, "finish_rows")
    axis = 2 if matmul.batch else 1
    lines = [
        *_head(
            refs,
            ["chunk_rows", "finish_rows", "block_n"],
            "One block of columns; with the last, the rest of the epilogue on whole rows.",
        ),
        f"    i, j = pl.program_id({axis - 1}), pl.program_id({axis})",
        f"    column_0 = serpentine(i, j, pl.num_programs({axis})) * block_n",
        *_COLUMNS,
        *_indented(before, 4),
        *chunks.loop(inner, "wide_ref.shape[0]", 4),
        "",
        f"    @pl.when(j == pl.num_programs({axis}) - 1)",
        "    def finish():",
        *(["        n = wide_ref.shape[1]"] if _mentions([*fixed, *rest], "n") else []),
        *_indented(fixed, 8),
        *finish[(0 if fixed else 1) :],
    ]
    return "\n".join(lines)


def running(
    matmul: MatmulProgram,
    args: tuple[Argument, ...],
    results: list[str],
    module: Module,
    ragged: bool,
) -> tuple[str, list[str]]:
    """Statistics of rows gather while the columns pass; (source, names of their scratch).

    `ragged`: the last block of columns reaches beyond the row, and is masked there.
    """
    refs = _refs(args, results)
    names = Names([*refs, *_TAKEN, "lanes", "start", "j", "inside"])
    program, space = matmul.program, matmul.space
    before, inner, product = product_code(matmul, args, names, module)
    tile = epilogue_scope(matmul, "tile", args, names, module)
    tile.known[matmul.term] = Code(names.new("product"))
    found = statistics(program, matmul.region.terms, space.cols)
    single_sweep(found)
    gathered = Accumulators.of(program, space.cols, found, names, ragged)
    moving = frozenset(space.rows)
    before += chunks.hoisted(tile, [a for s in found for a in program[s.term].args], moving)
    before += _inside(tile) if ragged else []
    inner += [f"{tile.known[matmul.term].text} = {product}"]
    inner += gathered.update(tile, 1, "block_n")
    last = epilogue_scope(matmul, "tile", args, names, module)
    gathered.finish(last, 1)
    rest = chunks.stores(last, _stores(matmul, results), 12)
    height = f"{results[0]}_ref.shape[0]"
    axis = 2 if matmul.batch else 1
    keywords = ["chunk_rows", "block_n", "n"]
    scratch = list(gathered.refs.values())
    lines = [
        *_head([*refs, *scratch], keywords, "Folds one block of columns into the statistics."),
        f"    j = pl.program_id({axis})",
        f"    lanes = {scratch[0]}.shape[1]",
        *(_column_0(axis) if _mentions([*before, *inner], "column_0") else []),
        "",
        "    @pl.when(j == 0)",
        "    def start():",
        *_indented(gathered.start(tile), 8),
        "",
        *_indented(before, 4),
        *chunks.loop(inner, height, 4)[(0 if before else 1) :],
        "",
        f"    @pl.when(j == pl.num_programs({axis}) - 1)",
        "    def finish():",
        *chunks.loop(rest, height, 8)[1:],
    ]
    return "\n".join(lines), scratch


def _inside(scope: Scope) -> list[str]:
    """Statements that mark a block's columns up to the row's end."""
    indices = [code.text for t, code in scope.known.items() if scope.program[t].op == "iota"]
    column = "jax.lax.broadcasted_iota(jnp.int32, (1, block_n), 1) + column_0"
    return [f"inside = {indices[0] if indices else column} < n"]


def _column_0(axis: int) -> list[str]:
    block = f"serpentine(pl.program_id({axis - 1}), j, pl.num_programs({axis}))"
    return [f"    column_0 = {block} * block_n"]


def pipelined(
    matmul: MatmulProgram,
    cut: int,
    args: tuple[Argument, ...],
    results: list[str],
    module: Module,
) -> str:
    """As `whole_rows`, but slices of the last row of blocks are finished between the products of
    the next one, so that matrix and vector units work at the same time."""
    refs = [*_refs(args, results), "wide_ref"]
    names = Names([*refs, *_TAKEN, "slot", "source", "turn", "gather", "drain", "j"])
    _, inner, product = product_code(matmul, args, names, module)
    tile = epilogue_scope(matmul, "tile", args, names, module)
    tile.known[matmul.term] = Code(names.new("product"))
    gather = [chunks.Store("wide_ref", cut, "", "slot, rows, columns")]
    moving = frozenset(matmul.space.rows)
    fixed = chunks.hoisted(tile, [cut], moving)
    inner += [f"{tile.known[matmul.term].text} = {product}", *chunks.stores(tile, gather, 12)]
    wide = epilogue_scope(matmul, "wide", args, names, module)
    wide.known[cut] = Code(names.new("whole"))
    rest = chunks.stores(wide, _stores(matmul, results), 8)
    out = f"{results[0]}_ref"
    lines = [
        *_head(
            refs,
            ["chunk_rows", "slice_rows", "block_n", "blocks"],
            "Gathers one block of columns while slices of the rows before are finished.",
        ),
        "    i, j = pl.program_id(0), pl.program_id(1)",
        "    slot = i % 2",
        "    column_0 = serpentine(i, j, pl.num_programs(1)) * block_n",
        *_COLUMNS,
        f"    turn = jnp.minimum(j, wide_ref.shape[1] // {out}.shape[0] - 1)",
        *(["    n = wide_ref.shape[2]"] if _mentions(rest, "n") else []),
        "",
        "    def finish(c):",
        "        rows = pl.ds(pl.multiple_of(c * slice_rows, slice_rows), slice_rows)",
        f"        start = turn * {out}.shape[0] + c * slice_rows",
        "        source = pl.ds(pl.multiple_of(start, slice_rows), slice_rows)",
        f"        {wide.known[cut].text} = wide_ref[1 - slot, source, :].astype(jnp.float32)",
        *_indented(rest, 8),
        "",
        "    @pl.when(i < blocks)",
        "    def gather():",
        *_indented(fixed, 8),
        *chunks.loop(["finish(c)", *inner], "wide_ref.shape[1]", 8)[(0 if fixed else 1) :],
        "",
        "    @pl.when(i == blocks)",
        "    def drain():",
        "        def chunk(c, carry):",
        "            finish(c)",
        "            return carry",
        "",
        f"        jax.lax.fori_loop(0, {out}.shape[0] // slice_rows, chunk, 0)",
    ]
    return "\n".join(lines)


def _refs(args: Sequence[Argument], results: Sequence[str]) -> list[str]:
    return [*(a.ref for a in args), *(f"{name}_ref" for name in results)]


def _stores(matmul: MatmulProgram, results: Sequence[str]) -> list[chunks.Store]:
    return [
        chunks.Store(f"{name}_ref", result.term, result.dtype)
        for name, result in zip(results, matmul.results, strict=True)
    ]


def _head(refs: Sequence[str], keywords: Sequence[str], what: str) -> list[str]:
    return [call("body", [*refs, "*", *keywords], 0, "def ", ":"), doc(what, 4)]


def _indented(lines: Sequence[str], indent: int) -> list[str]:
    return [f"{' ' * indent}{line}" for line in lines]


def _mentions(lines: Sequence[str], name: str) -> bool:
    return any(re.search(rf"\b{name}\b", line) for line in lines)
