"""The module of a row-wise kernel."""

from __future__ import annotations

from maxkernel.engineers.builtin.module import Module, Shapes, array_names, parameters
from maxkernel.engineers.builtin.rowwise import resident
from maxkernel.engineers.builtin.rowwise.match import Role, RowProgram
from maxkernel.engineers.builtin.text import Names, call, doc, sequence
from maxkernel.types import TaskInfo, TunableSpace

_BLOCK = {
    "full": "pl.BlockSpec((block_rows, cols), lambda i: (i, 0))",
    "row": "pl.BlockSpec((block_rows, 1), lambda i: (i, 0))",
    "col": "pl.BlockSpec((1, cols), lambda i: (0, 0))",
    "scalar": "pl.BlockSpec(memory_space=pltpu.SMEM)",
}
_SHAPE = {"full": "(rows, cols)", "row": "(rows, 1)", "col": "(1, cols)", "scalar": "(1, 1)"}


def resident_module(
    info: TaskInfo, rows: RowProgram, tunables: TunableSpace, vmem_limit: int, story: str
) -> str:
    """Source of the one-pass kernel."""
    names = Names(["rows", "cols", "block_rows", "chunk_rows", "i"])
    arguments = parameters(info, names)
    arrays = tuple(array_names(info, arguments))
    results = ["out"] if len(rows.outputs) == 1 else [f"out_{i}" for i in range(len(rows.outputs))]
    module = Module("Row-wise kernel.", story, tunables)
    body = resident.body(rows, arrays, results, module)
    module.constants["VMEM_LIMIT_BYTES"] = (
        f"{vmem_limit >> 20} * 2**20",
        "two buffers per block, and values",
    )
    module.functions = [body, _kernel(info, rows, arguments, arrays, results, tunables)]
    return module.render()


def _kernel(
    info: TaskInfo,
    rows: RowProgram,
    arguments: list[str],
    arrays: tuple[str, ...],
    results: list[str],
    tunables: TunableSpace,
) -> str:
    shapes = Shapes(rows.program, tuple(o.use for o in rows.operands), arrays)
    anchor = arrays[rows.anchor.index]
    defaults = [f"{name}={choices[0]}" for name, choices in tunables.items()]
    shaped = [_as_block(o.role, o.use.dtype, arrays[o.use.index]) for o in rows.operands]
    compiler = call(
        "pltpu.CompilerParams",
        ['dimension_semantics=("parallel",)', "vmem_limit_bytes=VMEM_LIMIT_BYTES"],
        8,
        "compiler_params=",
    )
    specs = [_BLOCK[o.role] for o in rows.operands]
    out_specs = [_BLOCK[role] for _, role in rows.outputs]
    out_types = [
        f"jax.ShapeDtypeStruct({_SHAPE[role]}, {_dtype(rows, arrays, out.dtype)})"
        for out, role in rows.outputs
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
    returned = [_restored(rows, shapes, name, i) for i, name in enumerate(results)]
    lines = [
        call("kernel", [*arguments, "*", *defaults], 0, "def ", ":"),
        doc("Rows in blocks over a one-dimensional grid.", 4),
        f"    cols = {shapes.dim(rows.cols)}",
        f"    rows = {anchor}.size // cols",
        "    block_rows = min(block_rows, pl.cdiv(rows, chunk_rows) * chunk_rows)",
        run.removesuffix("    )") + call(")", shaped, 4),
        f"    return {', '.join(returned)}",
    ]
    return "\n".join(lines)


def _restored(rows: RowProgram, shapes: Shapes, name: str, index: int) -> str:
    dims = rows.outputs[index][0].dims
    return f"{name}.reshape({shapes.shape(dims)})"


def _as_block(role: Role, dtype: str, name: str) -> str:
    if role == "scalar":
        kind = "int32" if "int" in dtype or dtype == "bool" else "float32"
        return f"{name}.astype(jnp.{kind}).reshape(1, 1)"
    cast = ".astype(jnp.int8)" if dtype == "bool" else ""
    return f"{name}{cast}.reshape{_SHAPE[role]}"


def _dtype(rows: RowProgram, arrays: tuple[str, ...], dtype: str) -> str:
    if rows.anchor.dtype == dtype:
        return f"{arrays[rows.anchor.index]}.dtype"
    return f"jnp.{dtype}"
