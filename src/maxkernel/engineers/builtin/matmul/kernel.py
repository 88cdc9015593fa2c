"""The `kernel` function of matrix-product modules: shapes, grid, blocks, the call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from maxkernel.engineers.builtin.matmul.arguments import Argument, Where
from maxkernel.engineers.builtin.matmul.match import MatmulProgram
from maxkernel.engineers.builtin.module import Shapes, plain
from maxkernel.engineers.builtin.operands import Operand, Role, Space, as_block
from maxkernel.engineers.builtin.text import assigned, broken, call, compiler_params, doc, sequence
from maxkernel.types import TunableSpace

TAKEN = (
    "m n k g i j column done blocks steps turns batch body block_m block_n block_k chunk_rows "
    "chunk_cols finish_rows slice_rows gather_dtype k_step divisor lanes serpentine".split()
)
"""Names that `kernel` uses itself."""
_SIZES: dict[Where, tuple[str, str]] = {
    "lhs": ("m", "k"),
    "rhs": ("n", "k"),
    "tile": ("m", "n"),
    "wide": ("m", "n"),
}
DIVISOR = '''def divisor(size, limit):
    """Largest divisor of `size` up to `limit` in 256s or 128s; all of it if none."""
    for unit in (256, 128):
        for block in range(limit - limit % unit, 0, -unit):
            if size % block == 0:
                return block
    return size
'''
"""Blocks that must divide: what lies behind the end of an array is garbage in a sum."""
SLICE_HEIGHT = '''def slice_height(chunk_rows, steps):
    """Rows to finish per chunk so that `steps` steps finish all; divides a chunk."""
    for height in range(16, chunk_rows, 16):
        if chunk_rows % height == 0 and height * steps >= chunk_rows:
            return height
    return chunk_rows
'''
SERPENTINE = '''def serpentine(i, j, steps):
    """Columns back and forth, so that at a turn the block is at hand already."""
    return jnp.where(i % 2 == 0, j, steps - 1 - j)
'''


@dataclass(frozen=True)
class Layout:
    """How a strategy walks: `column` and `done` are index expressions of the grid's (i, j).

    `blocks`: per space, ((block size, index) of its rows, (block size, index) of its columns).
    `grid`: the grid's axes. `parallel`: which of them may run in any order.
    """

    blocks: dict[Where, tuple[tuple[str, str], tuple[str, str]]]
    grid: tuple[str, ...]
    parallel: tuple[bool, ...]
    block_n: str
    """Statement that fits `block_n` to the columns: `_DIVIDES`, `_CUT` or `_RAGGED`."""
    results: Where
    """Whose blocks the results have."""
    setup: tuple[str, ...] = ()
    """Statements after the blocks are known."""
    padded: bool = False
    """Results come in whole blocks of rows, more than there are."""

    @property
    def depth(self) -> bool:
        """Whether the innermost grid axis runs over k."""
        return len(self.grid) == 3


_COLUMN = "serpentine(i, j, steps)"
_LHS = (("block_m", "i"), ("k", "0"))
_RHS = (("block_n", _COLUMN), ("k", "0"))
_TILE = (("block_m", "i"), ("block_n", _COLUMN))
_STEPS = "steps = pl.cdiv(n, block_n)"
_DIVIDES = "block_n = divisor(n, block_n)"
_CUT = "block_n = min(block_n, n)"
_RAGGED = "block_n = min(block_n, pl.cdiv(n, 128) * 128)  # the last block may reach beyond n"
_RUNNING = Layout(
    blocks={"lhs": _LHS, "rhs": _RHS, "tile": _TILE},
    grid=("pl.cdiv(m, block_m)", "steps"),
    parallel=(True, False),
    block_n=_DIVIDES,
    results="tile",
    setup=(_STEPS, "lanes = 128 if block_n % 128 == 0 else 1"),
)
LAYOUTS: dict[str, Layout] = {
    "depth": Layout(
        blocks={"lhs": _LHS, "rhs": _RHS, "tile": _TILE},
        grid=("pl.cdiv(m, block_m)", "steps"),
        parallel=(True, True),
        block_n=_CUT,
        results="tile",
        setup=("chunk_cols = divisor(block_n, CHUNK_COLS)", _STEPS),
    ),
    "accumulate": Layout(
        blocks={
            "lhs": (("block_m", "i"), ("block_k", "k_step")),
            "rhs": (("block_n", "j"), ("block_k", "k_step")),
            "tile": (("block_m", "i"), ("block_n", "j")),
        },
        grid=("pl.cdiv(m, block_m)", "pl.cdiv(n, block_n)", "k // block_k"),
        parallel=(True, True, False),
        block_n=_CUT,
        results="tile",
        setup=("block_k = divisor(k, block_k)",),
    ),
    "running": _RUNNING,
    "ragged": replace(_RUNNING, block_n=_RAGGED, setup=(_STEPS, "lanes = 128")),
    "rows": Layout(
        blocks={"lhs": _LHS, "rhs": _RHS, "tile": _TILE, "wide": (("block_m", "i"), ("n", "0"))},
        grid=("pl.cdiv(m, block_m)", "steps"),
        parallel=(True, False),
        block_n=_DIVIDES,
        results="wide",
        setup=(_STEPS,),
    ),
    "pipelined": Layout(
        blocks={
            "lhs": (("block_m", "jnp.minimum(i, blocks - 1)"), ("k", "0")),
            "rhs": (("block_n", "column(i, j)"), ("k", "0")),
            "tile": (("block_m", "jnp.minimum(i, blocks - 1)"), ("block_n", "column(i, j)")),
            "wide": (("turn_rows", "done(i, j)"), ("n", "0")),
        },
        grid=("blocks + 1", "steps"),
        parallel=(False, False),
        block_n=_DIVIDES,
        results="wide",
        setup=(
            _STEPS,
            "blocks = pl.cdiv(m, block_m)",
            "slice_rows = slice_height(chunk_rows, steps)",
            "turn_rows = slice_rows * (block_m // chunk_rows)",
            "turns = block_m // turn_rows",
            "",
            "def column(i, j):",
            '    """The last block of columns stays while the pipeline drains."""',
            "    i, j = jnp.minimum(i, blocks - 1), jnp.where(i < blocks, j, steps - 1)",
            "    return serpentine(i, j, steps)",
            "",
            "def done(i, j):",
            '    """The slice of finished rows that a step writes; none in the first block."""',
            "    turn = jnp.where(i > 0, jnp.minimum(j, turns - 1), 0)",
            "    return jnp.maximum(i - 1, 0) * turns + turn",
            "",
        ),
        padded=True,
    ),
}


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
    defaults = [f"{name}={plain(choices[0])}" for name, choices in c.tunables.items()]
    taken = [
        as_block(a.operand, _space(c, a.where), _SIZES[a.where], a.array, c.shapes) for a in c.args
    ]
    lines = [
        call("kernel", [*c.arguments, "*", *defaults], 0, "def ", ":"),
        doc("Reads the sizes from the inputs' shapes and fits the blocks to them.", 4),
        *(f"    {line}" for line in _sizes(c)),
        *(f"    {line}".rstrip() for line in c.layout.setup),
        *(f"    {line}" for lines, _ in taken for line in lines),
        _call(c, [text for _, text in taken]),
        *_ending(c),
    ]
    return "\n".join(lines)


def _ending(c: Call) -> list[str]:
    """What follows the call: whole blocks cut to size, XLA's part, the return."""
    if _direct(c):
        return []
    if c.layout.padded and list(c.returned) == c.results == ["out"]:
        return ["    return out[:m]"]
    return [
        *(f"    {name} = {name}[:m]" for name in c.results if c.layout.padded),
        *(f"    {line}" for line in c.after),
        f"    return {', '.join(c.returned)}",
    ]


def _direct(c: Call) -> bool:
    """Whether the kernel's result is returned as it stands."""
    return len(c.results) == 1 and list(c.returned) == c.results and not c.layout.padded


def _sizes(c: Call) -> list[str]:
    matmul, dim = c.matmul, c.shapes.dim
    return [
        *([f"batch = {dim(matmul.batch)}"] if matmul.batch else []),
        f"m = {dim(matmul.lhs.rows)}",
        f"n = {dim(matmul.rhs.rows)}",
        f"k = {dim(matmul.contract)}",
        "# Two chunks of a block at least: one program for every number of rows.",
        "chunk_rows = min(chunk_rows, block_m // 2, pl.cdiv(m, 64) * 32)",
        "block_m = min(block_m, pl.cdiv(m, chunk_rows) * chunk_rows)",
        c.layout.block_n,
    ]


def _call(c: Call, taken: Sequence[str]) -> str:
    grid = list(c.layout.grid)
    meaning = ["parallel" if free else "arbitrary" for free in c.layout.parallel]
    if c.matmul.batch:
        grid.insert(0, "batch")
        meaning.insert(0, "parallel")
    specs = [broken(_spec(c, a.operand, a.where), 12) for a in c.args]
    outs = [_out_spec(c, r.role) for r in c.matmul.results]
    types = [_out_type(c, r.dtype, r.role) for r in c.matmul.results]
    single = len(c.results) == 1
    pieces = [
        call("functools.partial", ["body", *c.bound], 8),
        sequence(grid, 8, "grid=", "()"),
        sequence(specs, 8, "in_specs="),
        assigned("out_specs", outs[0]) if single else sequence(outs, 8, "out_specs="),
        f"out_shape={types[0]}" if single else sequence(types, 8, "out_shape="),
    ]
    if c.scratch:
        pieces.append(sequence(list(c.scratch), 8, "scratch_shapes="))
    pieces.append(compiler_params(meaning))
    target = "return " if _direct(c) else f"{', '.join(c.results)} = "
    run = call("pl.pallas_call", pieces, 4, target)
    return run.removesuffix("    )") + call(")", taken, 4)


def _space(c: Call, where: Where) -> Space:
    return {"lhs": c.matmul.lhs.space, "rhs": c.matmul.rhs.space}.get(where, c.matmul.space)


def _out_spec(c: Call, role: Role) -> str:
    use = c.args[0].operand.use
    return _spec(c, Operand(-1, use, role, False, bool(c.matmul.batch)), c.layout.results)


def _spec(c: Call, operand: Operand, where: Where) -> str:
    if operand.role == "scalar":
        return "pl.BlockSpec(memory_space=pltpu.SMEM)"
    first, second = c.layout.blocks[where]
    parts = [
        first if operand.role in ("full", "row") else ("1", "0"),
        second if operand.role in ("full", "col") else ("1", "0"),
    ]
    if operand.flipped:
        parts.reverse()
    if c.matmul.batch:
        parts.insert(0, ("None", "g" if operand.batched else "0"))
    shape = ", ".join(size for size, _ in parts)
    index = ", ".join(index for _, index in parts)
    axes = [*(["g"] if c.matmul.batch else []), "i", "j", *(["k_step"] if c.layout.depth else [])]
    return f"pl.BlockSpec(({shape}), lambda {', '.join(axes)}: ({index}))"


def _out_type(c: Call, dtype: str, role: Role) -> str:
    batch = "batch, " if c.matmul.batch else ""
    height = "blocks * block_m" if c.layout.padded else "m"
    shape = f"({batch}{height}, {'n' if role == 'full' else '1'})"
    same = next((a.array for a in c.args if a.operand.use.dtype == dtype), None)
    return f"jax.ShapeDtypeStruct({shape}, {f'{same}.dtype' if same else f'jnp.{dtype}'})"
