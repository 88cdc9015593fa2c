"""The module of a row-wise kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from maxkernel.engineers.builtin.glue import finish
from maxkernel.engineers.builtin.module import Module, Shapes, array_names, parameters
from maxkernel.engineers.builtin.operands import Role, as_block
from maxkernel.engineers.builtin.rowwise import resident, sweeps
from maxkernel.engineers.builtin.rowwise.match import RowProgram
from maxkernel.engineers.builtin.text import Names, assigned, call, compiler_params, doc, sequence
from maxkernel.types import TaskInfo, TunableSpace

TAKEN = "rows cols block_rows block_cols chunk_rows lanes i s j late body".split()
"""Names that `kernel` uses itself."""
_SHAPE = {"full": "(rows, cols)", "row": "(rows, 1)", "col": "(1, cols)", "scalar": "(1, 1)"}


@dataclass(frozen=True)
class Layout:
    """How a strategy walks over rows and columns.

    `blocks`: (shape, index) per role of an input; `written` the same of a full-size result.
    """

    axes: str
    grid: tuple[str, ...]
    parallel: tuple[bool, ...]
    blocks: dict[Role, tuple[str, str]]
    written: tuple[str, str]
    bound: tuple[str, ...]
    sizes: tuple[str, ...]


_FIT = "block_rows = min(block_rows, pl.cdiv(rows, chunk_rows) * chunk_rows)"
RESIDENT = Layout(
    axes="i",
    grid=("pl.cdiv(rows, block_rows)",),
    parallel=(True,),
    blocks={
        "full": ("block_rows, cols", "i, 0"),
        "row": ("block_rows, 1", "i, 0"),
        "col": ("1, cols", "0, 0"),
    },
    written=("block_rows, cols", "i, 0"),
    bound=("chunk_rows=chunk_rows",),
    sizes=(_FIT,),
)
TILES = Layout(
    axes="i, j",
    grid=("pl.cdiv(rows, block_rows)", "pl.cdiv(cols, block_cols)"),
    parallel=(True, True),
    blocks={
        "full": ("block_rows, block_cols", "i, j"),
        "row": ("block_rows, 1", "i, 0"),
        "col": ("1, block_cols", "0, j"),
    },
    written=("block_rows, block_cols", "i, j"),
    bound=("chunk_rows=chunk_rows",),
    sizes=(_FIT, "block_cols = min(block_cols, cols)"),
)
SWEEPS = Layout(
    axes="i, s, j",
    grid=("pl.cdiv(rows, block_rows)", "SWEEPS", "pl.cdiv(cols, block_cols)"),
    parallel=(True, False, False),
    blocks={
        "full": ("block_rows, block_cols", "i, j"),
        "row": ("block_rows, 1", "i, 0"),
        "col": ("1, block_cols", "0, j"),
    },
    written=("block_rows, block_cols", "i, late(s, j)"),
    bound=("chunk_rows=chunk_rows", "block_cols=block_cols", "cols=cols"),
    sizes=(
        _FIT,
        "block_cols = min(block_cols, cols)",
        "lanes = 128 if block_cols % 128 == 0 else 1",
        "",
        "def late(s, j):",
        '    """Results stay at their first block until the last sweep."""',
        "    return jnp.where(s == SWEEPS - 1, j, 0)",
        "",
    ),
)


def module_text(
    info: TaskInfo, rows: RowProgram, tunables: TunableSpace, vmem_limit: int, layout: Layout
) -> str:
    """Source of a row-wise kernel in one of the layouts of this module."""
    names = Names(TAKEN)
    arguments = parameters(info, names)
    arrays = tuple(array_names(info, arguments))
    single = len(rows.results) == 1
    results = ["out"] if single else [f"out_{i}" for i in range(len(rows.results))]
    module = Module("Row-wise kernel.", _story(layout), tunables)
    scratch: list[str] = []
    if layout is SWEEPS:
        body, kept = sweeps.body(rows, arrays, results, module)
        scratch = ["pltpu.VMEM((block_rows, lanes), jnp.float32)" for _ in kept]
        module.constants["SWEEPS"] = (
            str(sweeps.count(rows)),
            "over the columns of a block of rows",
        )
    else:
        body = resident.body(rows, arrays, results, module)
    module.constants["VMEM_LIMIT_BYTES"] = (
        f"{vmem_limit >> 20} * 2**20",
        "two buffers per block, and values",
    )
    module.functions = [body, _kernel(rows, arguments, arrays, results, module, layout, scratch)]
    return module.render()


def _story(layout: Layout) -> str:
    if layout is SWEEPS:
        return "Long rows come in blocks of columns: statistics first, results in the last sweep."
    return "Rows come in blocks; everything is read once and every result written once."


def _kernel(
    rows: RowProgram,
    arguments: list[str],
    arrays: tuple[str, ...],
    results: list[str],
    module: Module,
    layout: Layout,
    scratch: Sequence[str],
) -> str:
    program = rows.program
    inputs = [program.input(t) for t in program.live() if program[t].op == "input"]
    shapes = Shapes(program, tuple(inputs), arrays)
    defaults = [f"{name}={choices[0]}" for name, choices in module.tunables.items()]
    taken = [
        as_block(o, rows.space, ("rows", "cols"), arrays[o.use.index], shapes)
        for o in rows.operands
    ]
    outs = [
        _spec(layout, layout.written if r.role == "full" else layout.blocks["row"])
        for r in rows.results
    ]
    types = [
        f"jax.ShapeDtypeStruct({_SHAPE[r.role]}, {_dtype(rows, arrays, r.dtype)})"
        for r in rows.results
    ]
    single = len(results) == 1
    meaning = ["parallel" if free else "arbitrary" for free in layout.parallel]
    pieces = [
        call("functools.partial", ["body", *layout.bound], 8),
        sequence(layout.grid, 8, "grid=", "()"),
        sequence([_input_spec(layout, o.role) for o in rows.operands], 8, "in_specs="),
        assigned("out_specs", outs[0]) if single else sequence(outs, 8, "out_specs="),
        f"out_shape={types[0]}" if single else sequence(types, 8, "out_shape="),
        *([sequence(scratch, 8, "scratch_shapes=")] if scratch else []),
        compiler_params(meaning),
    ]
    names = Names([*TAKEN, *arguments, *results])
    after, returned = finish(program, rows.region, results, shapes, names, module)
    direct = single and returned == results
    run = call("pl.pallas_call", pieces, 4, "return " if direct else f"{', '.join(results)} = ")
    lines = [
        call("kernel", [*arguments, "*", *defaults], 0, "def ", ":"),
        doc("Reads the sizes from the inputs' shapes and fits the blocks to them.", 4),
        f"    cols = {shapes.dim(rows.space.cols)}",
        f"    rows = {arrays[rows.anchor.index]}.size // cols",
        *(f"    {line}".rstrip() for line in layout.sizes),
        *(f"    {line}" for lines, _ in taken for line in lines),
        run.removesuffix("    )") + call(")", [text for _, text in taken], 4),
        *(f"    {line}" for line in after),
        *([] if direct else [f"    return {', '.join(returned)}"]),
    ]
    return "\n".join(lines)


def _input_spec(layout: Layout, role: Role) -> str:
    if role == "scalar":
        return "pl.BlockSpec(memory_space=pltpu.SMEM)"
    return _spec(layout, layout.blocks[role])


def _spec(layout: Layout, block: tuple[str, str]) -> str:
    return f"pl.BlockSpec(({block[0]}), lambda {layout.axes}: ({block[1]}))"


def _dtype(rows: RowProgram, arrays: tuple[str, ...], dtype: str) -> str:
    if rows.anchor.dtype == dtype:
        return f"{arrays[rows.anchor.index]}.dtype"
    return f"jnp.{dtype}"
