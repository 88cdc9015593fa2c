"""The `kernel` function of matrix-product modules: shapes, grid, blocks, the call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from maxkernel.engineers.builtin.matmul.arguments import Argument, Where
from maxkernel.engineers.builtin.matmul.match import MatmulProgram
from maxkernel.engineers.builtin.module import Shapes
from maxkernel.engineers.builtin.operands import Operand, Role, Space, as_block
from maxkernel.engineers.builtin.text import call, doc, sequence
from maxkernel.types import TunableSpace

TAKEN = (
    "m n k b i j inner steps batch body block_m block_n block_k chunk_rows finish_rows k_step "
    "divisor lanes".split()
)
"""Names that `kernel` uses itself."""
_BLOCK: dict[Where, tuple[tuple[str, str], tuple[str, str]]] = {
    "lhs": (("block_m", "m"), ("block_k", "k")),
    "rhs": (("block_n", "n"), ("block_k", "k")),
    "tile": (("block_m", "m"), ("block_n", "n")),
    "wide": (("block_m", "m"), ("n", "0")),
}
"""Per space: (block size, index) of its rows and of its columns."""
_SIZES: dict[Where, tuple[str, str]] = {
    "lhs": ("m", "k"),
    "rhs": ("n", "k"),
    "tile": ("m", "n"),
    "wide": ("m", "n"),
}
DIVISOR = '''def divisor(size, limit):
    """Largest block up to `limit` that divides `size`: of whole 256s, else of 128s, else all."""
    for unit in (256, 128):
        for block in range(limit - limit % unit, 0, -unit):
            if size % block == 0:
                return block
    return size
'''
"""Blocks that must divide: what lies behind the end of an array is garbage in a sum."""


@dataclass(frozen=True)
class Layout:
    """Strategy of a call. `depth`: an innermost grid axis over k. `wide`: results span columns."""

    depth: bool = False
    wide: bool = False
    running: bool = False
    """Results are complete after the last block of columns."""

    @property
    def back_and_forth(self) -> bool:
        """Whether the inner axis turns around, so that the block at a turn is used twice."""
        return not (self.depth or self.wide or self.running)


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
    after: Sequence[str]
    """Statements after the kernel."""
    returned: Sequence[str]
    bound: Sequence[str]
    """Keyword arguments of the body, as `name=value`."""
    scratch: Sequence[str] = ()


def kernel_text(c: Call) -> str:
    """The function `kernel`."""
    defaults = [f"{name}={choices[0]}" for name, choices in c.tunables.items()]
    taken = [
        as_block(a.operand, _space(c, a.where), _SIZES[a.where], a.array, c.shapes) for a in c.args
    ]
    lines = [
        call("kernel", [*c.arguments, "*", *defaults], 0, "def ", ":"),
        doc(_summary(c.layout), 4),
        *(f"    {line}" for line in _sizes(c)),
        *(f"    {line}" for lines, _ in taken for line in lines),
        *(f"    {line}".rstrip() for line in _walk(c)),
        _call(c, [text for _, text in taken]),
        *(f"    {line}" for line in c.after),
        f"    return {', '.join(c.returned)}",
    ]
    return "\n".join(lines)


def _summary(layout: Layout) -> str:
    if layout.depth:
        return "Blocks of rows, of columns, and k innermost."
    return "Rows of blocks in the outer axis: the left block stays while the right ones pass."


def _sizes(c: Call) -> list[str]:
    """Statements that read the problem's sizes from the inputs and fit the blocks to them."""
    matmul, dim = c.matmul, c.shapes.dim
    lines = [
        *([f"batch = {dim(matmul.batch)}"] if matmul.batch else []),
        f"m = {dim(matmul.lhs.rows)}",
        f"n = {dim(matmul.rhs.rows)}",
        f"k = {dim(matmul.contract)}",
        "chunk_rows = min(chunk_rows, block_m, pl.cdiv(m, 32) * 32)",
        "block_m = min(block_m, pl.cdiv(m, chunk_rows) * chunk_rows)",
        "block_n = min(block_n, n)"
        if c.layout.back_and_forth or c.layout.depth
        else "block_n = divisor(n, block_n)",
    ]
    if c.layout.running:
        lines.append("lanes = 128 if block_n % 128 == 0 else 1")
    if c.layout.depth:
        lines.append("block_k = divisor(k, block_k)")
    return lines


def _walk(c: Call) -> list[str]:
    if not c.layout.back_and_forth:
        return []
    return [
        "steps = pl.cdiv(n, block_n)",
        "",
        "def inner(i, j):",
        '    """Back and forth: the block at a turn is at hand already."""',
        "    return jnp.where(i % 2 == 0, j, steps - 1 - j)",
        "",
    ]


def _call(c: Call, taken: Sequence[str]) -> str:
    grid = ["pl.cdiv(m, block_m)", "steps" if c.layout.back_and_forth else "pl.cdiv(n, block_n)"]
    meaning = ['"parallel"', '"arbitrary"' if c.layout.wide or c.layout.running else '"parallel"']
    if c.layout.depth:
        grid.append("k // block_k")
        meaning.append('"arbitrary"')
    if c.matmul.batch:
        grid.insert(0, "batch")
        meaning.insert(0, '"parallel"')
    specs = [_spec(c, a.operand, a.where) for a in c.args]
    outs = [_out_spec(c, r.role) for r in c.matmul.results]
    types = [_out_type(c, r.dtype, r.role) for r in c.matmul.results]
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
    return run.removesuffix("    )") + call(")", taken, 4)


def _space(c: Call, where: Where) -> Space:
    return {"lhs": c.matmul.lhs.space, "rhs": c.matmul.rhs.space}.get(where, c.matmul.space)


def _out_spec(c: Call, role: Role) -> str:
    use = c.args[0].operand.use
    where: Where = "wide" if c.layout.wide else "tile"
    return _spec(c, Operand(-1, use, role, False, bool(c.matmul.batch)), where)


def _spec(c: Call, operand: Operand, where: Where) -> str:
    if operand.role == "scalar":
        return "pl.BlockSpec(memory_space=pltpu.SMEM)"
    first, second = _BLOCK[where]
    parts = [
        first if operand.role in ("full", "row") else ("1", "0"),
        second if operand.role in ("full", "col") else ("1", "0"),
    ]
    if operand.flipped:
        parts.reverse()
    if c.matmul.batch:
        parts.insert(0, ("None", "b" if operand.batched else "0"))
    depth = c.layout.depth
    index_of = {
        "m": "i",
        "n": "inner(i, j)" if c.layout.back_and_forth else "j",
        "k": "k_step" if depth else "0",
    }
    block = ", ".join("k" if size == "block_k" and not depth else size for size, _ in parts)
    index = ", ".join(index_of.get(name, name) for _, name in parts)
    return f"pl.BlockSpec(({block}), {_lambda(c)}: ({index}))"


def _lambda(c: Call) -> str:
    batch, depth = ["b"] if c.matmul.batch else [], ["k_step"] if c.layout.depth else []
    return f"lambda {', '.join([*batch, 'i', 'j', *depth])}"


def _out_type(c: Call, dtype: str, role: Role) -> str:
    batch = "batch, " if c.matmul.batch else ""
    shape = f"({batch}m, {'n' if role == 'full' else '1'})"
    same = next((a.array for a in c.args if a.operand.use.dtype == dtype), None)
    return f"jax.ShapeDtypeStruct({shape}, {f'{same}.dtype' if same else f'jnp.{dtype}'})"
