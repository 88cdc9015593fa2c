"""Strategies for one matrix product, and their tunables."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.costs import STEP_SECONDS, itemsize, memory_seconds
from maxkernel.engineers.builtin.matmul import body
from maxkernel.engineers.builtin.matmul.arguments import arguments
from maxkernel.engineers.builtin.matmul.kernel import TAKEN, Call, Layout, kernel_text
from maxkernel.engineers.builtin.matmul.match import MatmulProgram, match
from maxkernel.engineers.builtin.module import Module, Shapes, array_names, parameters
from maxkernel.engineers.builtin.terms import REDUCTIONS, Program
from maxkernel.engineers.builtin.text import Names
from maxkernel.targets import Target, peak_rate
from maxkernel.types import Plan, TaskInfo, TunableSpace

FULL_DEPTH = "whole-k blocks, no accumulator, epilogue in the same step"
VMEM_SHARE = 0.8
"""Of VMEM that blocks and chunks may take; the rest is the compiler's."""
BLOCKS = (128, 256, 512, 1024, 2048)
CHUNKS = (512, 1024, 256)
MXU_SHARE = 0.955
"""Of peak that a well-blocked product reaches (simulated v6e, whole-k blocks)."""


@dataclass(frozen=True)
class Blocks:
    """One choice of block sizes and its estimated seconds."""

    m: int
    n: int
    outer: str
    seconds: float


def plans(info: TaskInfo, program: Program, target: Target) -> list[Plan]:
    """Strategies for a product; raises Unsupported for any other program."""
    matmul = match(program)
    if any(program[t].op in REDUCTIONS for t in matmul.epilogue):
        raise Unsupported("its epilogue reduces over rows")
    found: list[Plan] = []
    for outer in ("m", "n"):
        ranked = rank(matmul, target, outer)
        if ranked:
            best = ranked[0]
            reason = (
                "XLA is near the limit for a dense product with an elementwise epilogue: expect"
                f" parity. Blocks of {best.m} x {best.n} keep traffic under the arithmetic."
            )
            found.append(Plan("matmul", FULL_DEPTH, reason, {"outer": outer}, best.seconds))
    if not found:
        raise Unsupported("no block of whole k fits in VMEM")
    return found


def implement(info: TaskInfo, program: Program, plan: Plan, target: Target) -> str:
    """Source for one of this family's plans."""
    matmul = match(program)
    outer = str(plan.options["outer"])
    ranked = rank(matmul, target, outer)
    space = tunables(ranked)
    names = Names(TAKEN)
    parameter_names = parameters(info, names)
    arrays = tuple(array_names(info, parameter_names))
    args = arguments(matmul, arrays)
    results = (
        ["out"] if len(matmul.outputs) == 1 else [f"out_{i}" for i in range(len(matmul.outputs))]
    )
    module = Module("Matrix product with fused epilogue.", "", space)
    module.story = (
        "Blocks of whole k: no accumulator, and the epilogue of a block overlaps its product."
    )
    text = body.full_depth(matmul, args, results, module)
    limit = int(target.vmem_bytes * 0.86) >> 20
    module.constants["VMEM_LIMIT_BYTES"] = (
        f"{limit} * 2**20",
        "two buffers per block, and a chunk",
    )
    shapes = Shapes(program, tuple(a.operand.use for a in args), arrays)
    the_call = Call(
        matmul=matmul,
        shapes=shapes,
        arguments=parameter_names,
        args=args,
        results=results,
        layout=Layout(outer),
        tunables=space,
        bound=["chunk_rows=chunk_rows"],
    )
    module.functions = [text, kernel_text(the_call)]
    return module.render()


def rank(matmul: MatmulProgram, target: Target, outer: str) -> list[Blocks]:
    """Block sizes that fit in VMEM, the fastest by estimate first."""
    found: list[Blocks] = []
    for m, n in product(BLOCKS, BLOCKS):
        if _footprint(matmul, m, n) <= VMEM_SHARE * target.vmem_bytes:
            found.append(Blocks(m, n, outer, _seconds(matmul, target, m, n, outer)))
    return sorted(found, key=lambda b: b.seconds)


def tunables(ranked: list[Blocks]) -> TunableSpace:
    """Choices by preference: those of the best-ranked blocks first."""
    near = [b for b in ranked[:8] if b.seconds < 1.3 * ranked[0].seconds]
    ms = tuple(dict.fromkeys(b.m for b in near))
    ns = tuple(dict.fromkeys(b.n for b in near))
    return {"block_m": ms, "block_n": ns, "chunk_rows": CHUNKS}


def _footprint(matmul: MatmulProgram, m: int, n: int) -> float:
    """VMEM bytes: two buffers of every block, and a chunk's float32 values."""
    _, _, _, k = matmul.sizes
    size = 2.0 * k * (m * _side_bytes(matmul, "lhs") + n * _side_bytes(matmul, "rhs"))
    size += 2.0 * m * n * _result_bytes(matmul)
    return size + 3 * 4 * min(m, CHUNKS[0]) * n


def _side_bytes(matmul: MatmulProgram, side: str) -> int:
    operands = matmul.lhs.operands if side == "lhs" else matmul.rhs.operands
    return sum(itemsize(o.use.dtype) for o in operands if o.role == "full")


def _result_bytes(matmul: MatmulProgram) -> int:
    """Bytes per element of the result's space that move: residuals in, results out."""
    size = sum(itemsize(o.use.dtype) for o in matmul.operands if o.role == "full")
    return size + sum(itemsize(out.dtype) for out, role in matmul.outputs if role == "full")


def _seconds(matmul: MatmulProgram, target: Target, m: int, n: int, outer: str) -> float:
    """max(arithmetic, traffic) + filling the pipeline + steps."""
    batch, rows, cols, k = matmul.sizes
    rows_up, cols_up = -(-rows // m), -(-cols // n)
    lhs, rhs = k * rows * _side_bytes(matmul, "lhs"), k * cols * _side_bytes(matmul, "rhs")
    moved = lhs + rows_up * rhs if outer == "m" else rhs + cols_up * lhs
    moved += rows * cols * _result_bytes(matmul)
    flops = 2.0 * rows_up * m * cols_up * n * k
    work = flops / (MXU_SHARE * peak_rate(target, matmul.lhs.dtype))
    fill = memory_seconds(
        k * (m * _side_bytes(matmul, "lhs") + n * _side_bytes(matmul, "rhs"))
        + m * n * _result_bytes(matmul),
        target,
    )
    steps = rows_up * cols_up * STEP_SECONDS * 0.2
    return batch * (max(work, memory_seconds(moved, target)) + steps) + fill
