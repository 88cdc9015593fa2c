"""The `kernel` function of matrix-product modules: shapes, grid, blocks, the call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from maxkernel.engineers.builtin.matmul.arguments import Argument
from maxkernel.engineers.builtin.matmul.match import MatmulProgram, Operand, Role
from maxkernel.engineers.builtin.module import Shapes
from maxkernel.engineers.builtin.text import call, doc, sequence
from maxkernel.types import TunableSpace

TAKEN = (
    "m n k b i j inner steps batch body block_m block_n block_k chunk_rows row_block k_step".split()
)
"""Names that `kernel` uses itself."""
_PARTS = {
    "lhs": (("block_m", "m"), ("{k}", "k")),
    "rhs": (("block_n", "n"), ("{k}", "k")),
    "out": (("block_m", "m"), ("block_n", "n")),
}
_SIZES = {"lhs": ("m", "k"), "rhs": ("n", "k"), "out": ("m", "n")}


@dataclass(frozen=True)
class Layout:
    """Choices that shape the call: which of m and n is the outer grid axis, and the strategy.

    `depth`: an innermost grid axis over k. `whole_rows`: results cover all columns.
    """

    outer: str
    depth: bool = False
    whole_rows: bool = False


@dataclass(frozen=True)
class Call:
    """Everything that the text of `kernel` is made of."""

    matmul: MatmulProgram
    shapes: Shapes
    arguments: list[str]
    """Parameters of `kernel` in call order."""
    args: tuple[Argument, ...]
    results: list[str]
    layout: Layout
    tunables: TunableSpace
    bound: Sequence[str]
    """Keyword arguments of the body, as `name=value`."""
    scratch: Sequence[str] = ()
    prepare: Sequence[str] = ()
    """Statements after the sizes are known."""


def kernel_text(c: Call) -> str:
    """The function `kernel`."""
    defaults = [f"{name}={choices[0]}" for name, choices in c.tunables.items()]
    lines = [
        call("kernel", [*c.arguments, "*", *defaults], 0, "def ", ":"),
        doc(_summary(c.layout), 4),
        *(f"    {line}" for line in (*_sizes(c), *c.prepare)),
        *(f"    {line}".rstrip() for line in _walk(c)),
        _call(c),
        f"    return {', '.join(_restored(c, i) for i in range(len(c.results)))}",
    ]
    return "\n".join(lines)


def _summary(layout: Layout) -> str:
    order = (
        "Rows of blocks in the outer axis" if layout.outer == "m" else "Columns of blocks outside"
    )
    return f"{order}{', k innermost' if layout.depth else ''}."


def _sizes(c: Call) -> list[str]:
    """Statements that read the problem's sizes from the inputs."""
    matmul, dim = c.matmul, c.shapes.dim
    lhs, rhs = matmul.lhs, matmul.rhs
    contract = matmul.contract
    lines = [
        f"m = {dim(lhs.rows)}",
        f"n = {dim(rhs.rows)}",
        f"k = {dim(contract)}",
        "chunk_rows = min(chunk_rows, block_m, pl.cdiv(m, 32) * 32)",
        "block_m = min(block_m, pl.cdiv(m, chunk_rows) * chunk_rows)",
    ]
    if not c.layout.whole_rows:
        lines.append("block_n = min(block_n, n)")
    if matmul.batch:
        lines.insert(0, f"batch = {dim(matmul.batch)}")
    return lines


def _walk(c: Call) -> list[str]:
    """The inner grid axis, walked back and forth where whole operands stay resident."""
    if c.layout.depth or c.layout.whole_rows:
        return []
    axis = "n" if c.layout.outer == "m" else "m"
    return [
        f"steps = pl.cdiv({axis}, block_{axis})",
        "",
        "def inner(i, j):",
        '    """Back and forth: the block at a turn is at hand already."""',
        "    return jnp.where(i % 2 == 0, j, steps - 1 - j)",
        "",
    ]


def _call(c: Call) -> str:
    grid = ["pl.cdiv(m, block_m)", "pl.cdiv(n, block_n)"]
    if c.layout.outer == "n":
        grid.reverse()
    meaning = ['"parallel"', '"arbitrary"' if c.layout.whole_rows else '"parallel"']
    if c.layout.depth:
        grid.append("k // block_k")
        meaning.append('"arbitrary"')
    if c.matmul.batch:
        grid.insert(0, "batch")
        meaning.insert(0, '"parallel"')
    specs = [_spec(c, a.operand, a.where) for a in c.args]
    outs = [_out_spec(c, role) for _, role in c.matmul.outputs]
    types = [_out_type(c, out.dtype, role) for out, role in c.matmul.outputs]
    single = len(c.results) == 1
    pieces = [
        f"functools.partial(body, {', '.join(c.bound)})",
        sequence(grid, 8, "grid=", "()"),
        sequence(specs, 8, "in_specs="),
        f"out_specs={outs[0]}" if single else sequence(outs, 8, "out_specs="),
        f"out_shape={types[0]}" if single else sequence(types, 8, "out_shape="),
    ]
    if c.scratch:
        pieces.append(sequence(list(c.scratch), 8, "scratch_shapes="))
    semantics = sequence(meaning, 12, "dimension_semantics=", "()")
    limit = "vmem_limit_bytes=VMEM_LIMIT_BYTES"
    pieces.append(call("pltpu.CompilerParams", [semantics, limit], 8, "compiler_params="))
    run = call("pl.pallas_call", pieces, 4, f"{', '.join(c.results)} = ")
    shaped = [_shaped(c, a) for a in c.args]
    return run + call("", shaped, 4).lstrip()


def _out_spec(c: Call, role: Role) -> str:
    if c.layout.whole_rows:
        shape = ("block_m", "n" if role == "full" else "1")
        lead = ["None"] if c.matmul.batch else []
        index = [*(["b"] if c.matmul.batch else []), "i", "0"]
        return f"pl.BlockSpec(({', '.join([*lead, *shape])}), {_lambda(c)}: ({', '.join(index)}))"
    use = c.args[0].operand.use
    return _spec(c, Operand(-1, use, role, False, bool(c.matmul.batch)), "out")


def _spec(c: Call, operand: Operand, where: str) -> str:
    if operand.role == "scalar":
        return "pl.BlockSpec(memory_space=pltpu.SMEM)"
    first, second = _PARTS[where]
    parts = [
        first if operand.role in ("full", "row") else ("1", "0"),
        second if operand.role in ("full", "col") else ("1", "0"),
    ]
    if operand.flipped:
        parts.reverse()
    if c.matmul.batch:
        parts.insert(0, ("None", "b" if operand.batched else "0"))
    index_of = _indices(c.layout)
    block = ", ".join(shape.format(k="block_k" if c.layout.depth else "k") for shape, _ in parts)
    index = ", ".join(index_of.get(index, index) for _, index in parts)
    return f"pl.BlockSpec(({block}), {_lambda(c)}: ({index}))"


def _indices(layout: Layout) -> dict[str, str]:
    inner = "j" if layout.depth or layout.whole_rows else "inner(i, j)"
    m, n = ("i", inner) if layout.outer == "m" else (inner, "i")
    return {"m": m, "n": n, "k": "k_step" if layout.depth else "0"}


def _lambda(c: Call) -> str:
    batch, depth = ["b"] if c.matmul.batch else [], ["k_step"] if c.layout.depth else []
    return f"lambda {', '.join([*batch, 'i', 'j', *depth])}"


def _shape(c: Call, operand: Operand, where: str) -> str:
    rows, cols = _SIZES[where]
    parts = [
        rows if operand.role in ("full", "row") else "1",
        cols if operand.role in ("full", "col") else "1",
    ]
    if operand.flipped:
        parts.reverse()
    if c.matmul.batch and operand.role != "scalar":
        parts.insert(0, "batch" if operand.batched else "1")
    return f"({', '.join(parts)})"


def _shaped(c: Call, argument: Argument) -> str:
    """One argument of the call: the input reshaped to its two (or three) dimensions."""
    operand, use = argument.operand, argument.operand.use
    cast = ""
    if operand.role == "scalar":
        cast = ".astype(jnp.int32)" if "int" in use.dtype else ".astype(jnp.float32)"
    elif use.dtype == "bool":
        cast = ".astype(jnp.int8)"
    if not cast and all(len(d) == 1 for d in use.dims) and len(use.dims) == _rank(c, operand):
        return argument.array
    return f"{argument.array}{cast}.reshape{_shape(c, operand, argument.where)}"


def _rank(c: Call, operand: Operand) -> int:
    """Dimensions of an input that needs no reshape; 0 when it always does."""
    return (3 if c.matmul.batch else 2) if operand.role == "full" else 0


def _out_type(c: Call, dtype: str, role: Role) -> str:
    use = c.args[0].operand.use
    shape = _shape(c, Operand(-1, use, role, False, True), "out")
    same = next((a.array for a in c.args if a.operand.use.dtype == dtype), None)
    kind = f"{same}.dtype" if same else f"jnp.{dtype}"
    return f"jax.ShapeDtypeStruct({shape}, {kind})"


def _restored(c: Call, index: int) -> str:
    out, role = c.matmul.outputs[index]
    name = c.results[index]
    rank = 3 if c.matmul.batch else 2
    if role == "full" and len(out.dims) == rank and all(len(d) == 1 for d in out.dims):
        return name
    return f"{name}.reshape({c.shapes.shape(out.dims)})"
