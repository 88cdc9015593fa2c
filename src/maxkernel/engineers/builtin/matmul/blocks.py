"""Block sizes of matrix-product kernels: what fits in VMEM, and how fast it is by estimate."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Literal

from maxkernel.engineers.builtin.costs import (
    STEP_SECONDS,
    itemsize,
    memory_seconds,
    vector_cycles,
)
from maxkernel.engineers.builtin.matmul.match import MatmulProgram
from maxkernel.targets import Target, peak_rate
from maxkernel.types import TunableSpace

Strategy = Literal["depth", "accumulate", "rows", "pipelined", "running"]
VMEM_SHARE = 0.88
"""Of VMEM that blocks and chunks may take; the rest is the compiler's."""
MS = (128, 256, 512, 1024, 2048)
NS: dict[Strategy, tuple[int, ...]] = {
    "depth": (256, 512, 1024),
    "accumulate": (512, 1024, 2048),
    "rows": (256, 512),
    "pipelined": (256, 512),
    "running": (256, 512, 1024),
}
KS = (512, 1024, 2048)
CHUNKS = (512, 1024, 256)
"""Heights of the unrolled part of a block: 512 x 512 compiles in 3 s, 512 x 2048 in minutes."""
FINISH_ROWS = (16, 32)
MXU_SHARE = 0.955
"""Of peak that a well-blocked product reaches (simulated v6e, whole-k blocks)."""
ACCUMULATE_SHARE = 0.88
"""The same with an accumulator in VMEM."""


@dataclass(frozen=True)
class Blocks:
    """One choice of block sizes, its estimated seconds, and what they are made of."""

    m: int
    n: int
    k: int
    gather: str
    """Dtype of gathered rows; empty where none are."""
    seconds: float
    why: str


def rank(matmul: MatmulProgram, target: Target, strategy: Strategy) -> list[Blocks]:
    """Block sizes that fit in VMEM, the fastest by estimate first."""
    depth = matmul.sizes[3]
    found: list[Blocks] = []
    ks = KS if strategy == "accumulate" else (depth,)
    for m, n, k, gather in product(MS, NS[strategy], ks, gathers(matmul, strategy)):
        if strategy in ("rows", "pipelined", "running") and not ragged(matmul, strategy):
            n = divisor(matmul.sizes[2], n)
        held = footprint(matmul, strategy, m, n, k, itemsize(gather))
        if held <= VMEM_SHARE * target.vmem_bytes and k <= depth:
            found.append(_timed(matmul, target, strategy, m, n, k, gather))
    return sorted(found, key=lambda b: b.seconds)


def gathers(matmul: MatmulProgram, strategy: Strategy) -> tuple[str, ...]:
    """Dtypes in which whole rows may gather: half the VMEM where the reference rounds as well."""
    if strategy not in ("rows", "pipelined"):
        return ("",)
    return ("float32", "bfloat16") if matmul.dot.dtype == "bfloat16" else ("float32",)


def tunables(ranked: list[Blocks], strategy: Strategy) -> TunableSpace:
    """Choices by preference: those of the best-ranked blocks first."""
    near = [b for b in ranked[:8] if b.seconds < 1.3 * ranked[0].seconds]
    space: TunableSpace = {
        "block_m": tuple(dict.fromkeys(b.m for b in near)),
        "block_n": tuple(dict.fromkeys(b.n for b in near)),
    }
    if strategy == "accumulate":
        space["block_k"] = tuple(dict.fromkeys(b.k for b in near))
    wide = max(b.n for b in near) > 512 and strategy != "depth"
    space["chunk_rows"] = (256, 512) if wide else CHUNKS
    if strategy == "rows":
        space["finish_rows"] = FINISH_ROWS
    if ranked[0].gather:
        space["gather_dtype"] = tuple(dict.fromkeys(b.gather for b in near))
    return space


def divisor(size: int, limit: int) -> int:
    """The block that the emitted function of this name chooses."""
    for unit in (256, 128):
        for block in range(limit - limit % unit, 0, -unit):
            if size % block == 0:
                return block
    return size


def ragged(matmul: MatmulProgram, strategy: Strategy) -> bool:
    """Whether the last block of columns reaches beyond the row and is masked.

    So it is where no block that divides the columns serves: they are no multiple of a register's
    128 lanes, or only blocks narrower than the matrix unit divide them.
    """
    columns, widest = matmul.sizes[2], max(NS["running"])
    narrow = columns > widest and divisor(columns, widest) < 256
    return strategy == "running" and (columns % 128 != 0 or narrow)


def footprint(
    matmul: MatmulProgram, strategy: Strategy, m: int, n: int, k: int, gather: int
) -> float:
    """VMEM bytes: two buffers of every block, the scratch, and a chunk's float32 values."""
    columns = matmul.sizes[2]
    size = 2.0 * k * (m * side_bytes(matmul, "lhs") + n * side_bytes(matmul, "rhs"))
    across = {"rows": m * columns, "pipelined": m * n}.get(strategy, m * n)
    size += 2.0 * across * result_bytes(matmul)
    chunk = 3 * 4 * min(m, CHUNKS[0]) * min(n, 512)
    if strategy == "accumulate":
        return size + 4 * m * n + chunk
    if strategy == "running":
        return size + 4 * 4 * 128 * m + chunk
    if strategy == "rows":
        return size + gather * m * columns + max(chunk, 6 * 4 * FINISH_ROWS[0] * columns)
    if strategy == "pipelined":
        return size + 2 * gather * m * columns + chunk + 6 * 4 * FINISH_ROWS[0] * columns
    return size + chunk


def side_bytes(matmul: MatmulProgram, side: str) -> int:
    """Bytes per element of one side's arrays."""
    operands = matmul.lhs.operands if side == "lhs" else matmul.rhs.operands
    return sum(itemsize(o.use.dtype) for o in operands if o.role == "full")


def result_bytes(matmul: MatmulProgram) -> int:
    """Bytes per element of the result's space that move: residuals in, results out."""
    size = sum(itemsize(o.use.dtype) for o in matmul.operands if o.role == "full")
    return size + sum(itemsize(r.dtype) for r in matmul.results if r.role == "full")


def _timed(
    matmul: MatmulProgram, target: Target, strategy: Strategy, m: int, n: int, k: int, gather: str
) -> Blocks:
    """max(arithmetic, traffic) + what does not overlap."""
    batch, rows, cols, depth = matmul.sizes
    rows_up, cols_up = -(-rows // m), -(-cols // n)
    lhs, rhs = depth * rows * side_bytes(matmul, "lhs"), depth * cols * side_bytes(matmul, "rhs")
    moved = (cols_up if strategy == "accumulate" else 1) * lhs + rows_up * rhs
    moved += rows * cols * result_bytes(matmul)
    flops = 2.0 * rows_up * m * cols_up * n * depth
    share = ACCUMULATE_SHARE if strategy == "accumulate" else MXU_SHARE
    share *= 0.98 if n < 512 else 1.0
    share *= n / (-(-n // target.mxu_size) * target.mxu_size)
    work = flops / (share * peak_rate(target, matmul.lhs.dtype))
    traffic = memory_seconds(moved, target)
    blocks = k * (m * side_bytes(matmul, "lhs") + n * side_bytes(matmul, "rhs"))
    across = cols if strategy == "rows" else n
    fill = memory_seconds(blocks + m * across * result_bytes(matmul), target)
    serial = 0.0
    if strategy == "rows":
        serial = vector_cycles(matmul.program, matmul.epilogue, rows * cols) / target.clock_hz
    steps = rows_up * cols_up * (depth // k) * STEP_SECONDS * 0.2
    seconds = batch * (max(work, traffic) + serial + steps) + fill
    limit = "arithmetic" if work > traffic else "HBM traffic"
    why = (
        f"{work * 1e6:.0f} us of arithmetic, {traffic * 1e6:.0f} us of HBM traffic per batch,"
        f" {serial * 1e6:.0f} us of epilogue that does not overlap; bound by {limit}"
    )
    return Blocks(m, n, k, gather, seconds, why)
