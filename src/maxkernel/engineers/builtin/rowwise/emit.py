"""The module of a row-wise kernel."""

from __future__ import annotations

from maxkernel.engineers.builtin.glue import finish
from maxkernel.engineers.builtin.module import (
    Module,
    Shapes,
    array_names,
    parameters,
)
from maxkernel.engineers.builtin.operands import as_block
from maxkernel.engineers.builtin.rowwise import resident
from maxkernel.engineers.builtin.rowwise.match import RowProgram
from maxkernel.engineers.builtin.text import Names, call, doc, sequence
from maxkernel.types import TaskInfo, TunableSpace

_BLOCK = {
    "full": "pl.BlockSpec((block_rows, cols), lambda i: (i, 0))",
    "row": "pl.BlockSpec((block_rows, 1), lambda i: (i, 0))",
    "col": "pl.BlockSpec((1, cols), lambda i: (0, 0))",
    "scalar": "pl.BlockSpec(memory_space=pltpu.SMEM)",
}
TAKEN = ("rows", "cols", "block_rows", "chunk_rows", "i", "body")
"""Names that `kernel` uses itself."""
_SHAPE = {"full": "(rows, cols)", "row": "(rows, 1)", "col": "(1, cols)", "scalar": "(1, 1)"}


def resident_module(
    info: TaskInfo, rows: RowProgram, tunables: TunableSpace, vmem_limit: int, story: str
) -> str:
    """Source of the one-pass kernel."""
    names = Names(TAKEN)
    arguments = parameters(info, names)
    arrays = tuple(array_names(info, arguments))
    single = len(rows.results) == 1
    results = ["out"] if single else [f"out_{i}" for i in range(len(rows.results))]
    module = Module("Row-wise kernel.", story, tunables)
    body = resident.body(rows, arrays, results, module)
    module.constants["VMEM_LIMIT_BYTES"] = (
        f"{vmem_limit >> 20} * 2**20",
        "two buffers per block, and values",
    )
    module.functions = [body, _kernel(rows, arguments, arrays, results, tunables, module)]
    return module.render()


def _kernel(
    rows: RowProgram,
    arguments: list[str],
    arrays: tuple[str, ...],
    results: list[str],
    tunables: TunableSpace,
    module: Module,
) -> str:
    shapes = Shapes(rows.program, tuple(o.use for o in rows.operands), arrays)
    anchor = arrays[rows.anchor.index]
    defaults = [f"{name}={choices[0]}" for name, choices in tunables.items()]
    taken = [
        as_block(o, rows.space, ("rows", "cols"), arrays[o.use.index], shapes)
        for o in rows.operands
    ]
    compiler = call(
        "pltpu.CompilerParams",
        ['dimension_semantics=("parallel",)', "vmem_limit_bytes=VMEM_LIMIT_BYTES"],
        8,
        "compiler_params=",
    )
    specs = [_BLOCK[o.role] for o in rows.operands]
    out_specs = [_BLOCK[r.role] for r in rows.results]
    out_types = [
        f"jax.ShapeDtypeStruct({_SHAPE[r.role]}, {_dtype(rows, arrays, r.dtype)})"
        for r in rows.results
    ]
    single = len(results) == 1
    arguments_of_call = [
        "functools.partial(body, chunk_rows=chunk_rows)",
        "grid=(pl.cdiv(rows, block_rows),)",
        sequence(specs, 8, "in_specs="),
        f"out_specs={out_specs[0]}" if single else sequence(out_specs, 8, "out_specs="),
        f"out_shape={out_types[0]}" if single else sequence(out_types, 8, "out_shape="),
        compiler,
    ]
    run = call("pl.pallas_call", arguments_of_call, 4, f"{', '.join(results)} = ")
    names = Names([*TAKEN, *arguments, *results])
    after, returned = finish(rows.program, rows.region, results, shapes, names, module)
    lines = [
        call("kernel", [*arguments, "*", *defaults], 0, "def ", ":"),
        doc("Rows in blocks over a one-dimensional grid.", 4),
        f"    cols = {shapes.dim(rows.space.cols)}",
        f"    rows = {anchor}.size // cols",
        "    block_rows = min(block_rows, pl.cdiv(rows, chunk_rows) * chunk_rows)",
        *(f"    {line}" for lines, _ in taken for line in lines),
        run.removesuffix("    )") + call(")", [text for _, text in taken], 4),
        *(f"    {line}" for line in after),
        f"    return {', '.join(returned)}",
    ]
    return "\n".join(lines)


def _dtype(rows: RowProgram, arrays: tuple[str, ...], dtype: str) -> str:
    if rows.anchor.dtype == dtype:
        return f"{arrays[rows.anchor.index]}.dtype"
    return f"jnp.{dtype}"
