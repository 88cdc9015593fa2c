"""Strategies for row-wise programs, and their tunables."""

from __future__ import annotations

from maxkernel.engineers.builtin.costs import (
    STEP_SECONDS,
    itemsize,
    memory_seconds,
    vector_cycles,
)
from maxkernel.engineers.builtin.rowwise import emit, sweeps
from maxkernel.engineers.builtin.rowwise.match import RowProgram, match
from maxkernel.engineers.builtin.running import statistics
from maxkernel.engineers.builtin.terms import REDUCTIONS, Program
from maxkernel.targets import Target
from maxkernel.types import Plan, TaskInfo, TunableSpace

RESIDENT = "one pass, whole rows resident in VMEM"
SWEEPS = "sweeps over blocks of columns, running statistics"
TILES = "one pass over blocks of rows and columns"
VMEM_SHARE = 0.75
"""Of VMEM that a kernel may plan with; the rest is the compiler's."""
BLOCK_BYTES = 2 << 20
"""Preferred size of one block: long DMAs, yet a short first and last step."""
CHUNK_ELEMENTS = 1 << 17
"""Elements of one chunk: enough independent work to hide the latency of each operation."""


def plans(info: TaskInfo, program: Program, target: Target) -> list[Plan]:
    """Strategies for a row-wise program; raises Unsupported for any other."""
    rows = match(program)
    traffic, compute = _estimate(rows, target)
    limit = "HBM" if compute < traffic else "vector unit"
    cost = f"{traffic * 1e6:.0f} us of traffic, {compute * 1e6:.0f} us of arithmetic"
    if tunables(rows, target)["block_rows"]:
        reason = (
            f"every input is read once and every result written once: bound by {limit} ({cost})"
        )
        return [Plan("rowwise", RESIDENT, reason, {}, max(traffic, compute))]
    count = sweeps.count(rows)
    if not statistics(program, rows.region.terms, rows.space.cols):
        reason = f"elementwise: bound by {limit} ({cost})"
        return [Plan("rowwise", TILES, reason, {}, max(traffic, compute))]
    reason = f"a row does not fit in VMEM: {count} sweeps over its columns ({cost} each)"
    return [Plan("rowwise", SWEEPS, reason, {}, count * max(traffic, compute))]


def implement(info: TaskInfo, program: Program, plan: Plan, target: Target) -> str:
    """Source for one of this family's plans."""
    rows = match(program)
    layout = {SWEEPS: emit.SWEEPS, TILES: emit.TILES}.get(plan.strategy, emit.RESIDENT)
    space = tunables(rows, target) if layout is emit.RESIDENT else long_tunables(rows)
    return emit.module_text(info, rows, space, int(target.vmem_bytes * VMEM_SHARE), layout)


def long_tunables(rows: RowProgram) -> TunableSpace:
    """Blocks of about BLOCK_BYTES, a few rows high: long DMAs and few steps."""
    tile = 32 // min(itemsize(o.use.dtype) for o in rows.operands)
    return {
        "block_rows": (4 * tile, tile, 8 * tile),
        "block_cols": (8192, 4096, 16384),
        "chunk_rows": (tile,),
    }


def tunables(rows: RowProgram, target: Target) -> TunableSpace:
    """Block heights by preference (largest power of two near BLOCK_BYTES first), chunk heights.

    Every chunk height divides every block height.
    """
    _, cols = rows.shape
    tile = 32 // min(itemsize(o.use.dtype) for o in rows.operands)
    chunk = tile
    while chunk * 2 * cols <= CHUNK_ELEMENTS:
        chunk *= 2
    for chunks in ((chunk, 2 * chunk), (tile,)):
        heights = _heights(rows, target, chunks[-1])
        if heights:
            return {"block_rows": heights, "chunk_rows": chunks}
    return {"block_rows": (), "chunk_rows": (tile,)}


def _heights(rows: RowProgram, target: Target, chunk: int) -> tuple[int, ...]:
    """Powers of two times `chunk` that fit in VMEM with double buffering and chunk values."""
    _, cols = rows.shape
    widest = max(itemsize(o.use.dtype) for o in rows.operands if o.role == "full") * cols
    best = chunk
    while best * 2 * widest <= BLOCK_BYTES and best < 4096:
        best *= 2
    usable = target.vmem_bytes * VMEM_SHARE - 12 * chunk * cols * 4
    heights = (best, best // 2, best * 2, best * 4)
    return tuple(h for h in heights if h >= chunk and 2 * h * _row_bytes(rows) <= usable)


def _row_bytes(rows: RowProgram) -> float:
    """Bytes of one row of every block in VMEM; a (rows, 1) block takes a whole lane tile."""
    _, cols = rows.shape
    size = 0.0
    for role, dtype in [(o.role, o.use.dtype) for o in rows.operands] + [
        (r.role, r.dtype) for r in rows.results
    ]:
        size += itemsize(dtype) * {"full": cols, "row": 128, "col": 0, "scalar": 0}[role]
    return size


def _estimate(rows: RowProgram, target: Target) -> tuple[float, float]:
    """Seconds of HBM traffic and of vector arithmetic."""
    count, cols = rows.shape
    moved = count * _row_bytes(rows)
    program = rows.program
    terms = rows.region.terms
    full = [t for t in terms if rows.space.role(program[t].axes) == "full"]
    sums = [t for t in terms if program[t].op in REDUCTIONS]
    cycles = vector_cycles(program, [*full, *sums], count * cols)
    steps = count * _row_bytes(rows) / (4 * BLOCK_BYTES)
    return memory_seconds(moved, target) + steps * STEP_SECONDS, cycles / target.clock_hz
