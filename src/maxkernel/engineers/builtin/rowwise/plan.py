"""Strategies for row-wise programs, and their tunables."""

from __future__ import annotations

from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.costs import (
    STEP_SECONDS,
    itemsize,
    memory_seconds,
    vector_cycles,
)
from maxkernel.engineers.builtin.rowwise.emit import resident_module
from maxkernel.engineers.builtin.rowwise.match import RowProgram, match
from maxkernel.engineers.builtin.terms import REDUCTIONS, Program
from maxkernel.targets import Target
from maxkernel.types import Plan, TaskInfo, TunableSpace

RESIDENT = "one pass, whole rows resident in VMEM"
VMEM_SHARE = 0.75
"""Of VMEM that a kernel may plan with; the rest is the compiler's."""
BLOCK_BYTES = 2 << 20
"""Preferred size of one block: long DMAs, yet a short first and last step."""
CHUNK_ELEMENTS = 1 << 17
"""Elements of one chunk: enough independent work to hide the latency of each operation."""


def plans(info: TaskInfo, program: Program, target: Target) -> list[Plan]:
    """Strategies for a row-wise program; raises Unsupported for any other."""
    rows = match(program)
    if not tunables(rows, target)["block_rows"]:
        raise Unsupported("one row does not fit in VMEM")
    seconds, compute = _estimate(rows, target)
    limit = "HBM" if compute < seconds else "vector unit"
    reason = (
        f"every input is read once and every result written once; bound by the {limit}"
        f" ({seconds * 1e6:.0f} us of traffic, {compute * 1e6:.0f} us of arithmetic)"
    )
    expected = max(seconds, compute)
    return [Plan("rowwise", RESIDENT, reason, {}, expected)]


def implement(info: TaskInfo, program: Program, plan: Plan, target: Target) -> str:
    """Source for one of this family's plans."""
    rows = match(program)
    space = tunables(rows, target)
    limit = int(target.vmem_bytes * VMEM_SHARE)
    story = "Rows come in blocks; each row is read once and every result of it written once."
    return resident_module(info, rows, space, limit, story)


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
