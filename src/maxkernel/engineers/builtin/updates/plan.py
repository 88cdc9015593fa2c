"""The strategy for updates, and its tunables."""

from __future__ import annotations

from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.canon import canonicalise
from maxkernel.engineers.builtin.costs import itemsize, memory_seconds, vector_cycles
from maxkernel.engineers.builtin.terms import Program
from maxkernel.engineers.builtin.updates.emit import module_text
from maxkernel.engineers.builtin.updates.match import Update, match
from maxkernel.engineers.builtin.updates.sums import without_vector_products
from maxkernel.targets import Target
from maxkernel.types import Plan, TaskInfo, TunableSpace

STRATEGY = "one pass over blocks of matrices, each read once and written once"
VMEM_SHARE = 0.75
"""Of VMEM that a kernel may plan with; the rest is the compiler's."""
BLOCK_BYTES = 2 << 20
"""Preferred size of one block of matrices: long DMAs, yet a short first and last step."""
CHUNK_ELEMENTS = 1 << 19
"""Elements of the matrices that are worked on at once: more units hide latencies, and make more
code to compile."""
SUBLANES, LANES = 8, 128


def plans(info: TaskInfo, program: Program, target: Target) -> list[Plan]:
    """The one strategy; raises Unsupported for any program that is no update."""
    update = _matched(info, program)
    tunables(update, target)
    moved = sum(s.size * itemsize(s.dtype) for s in (*info.inputs, *info.outputs))
    traffic = memory_seconds(float(moved), target)
    units, rows, cols = update.shape
    full = [t for t in update.places if update.full(t)]
    cycles = vector_cycles(update.program, full, float(units * rows * cols))
    compute = cycles / target.clock_hz
    reason = (
        f"every matrix moves once: {traffic * 1e6:.0f} us of traffic,"
        f" {compute * 1e6:.0f} us of arithmetic"
    )
    return [Plan("updates", STRATEGY, reason, {}, max(traffic, compute))]


def implement(info: TaskInfo, program: Program, plan: Plan, target: Target) -> str:
    """Source for this family's plan."""
    update = _matched(info, program)
    limit = int(target.vmem_bytes * VMEM_SHARE)
    return module_text(info, update, tunables(update, target), limit)


def tunables(update: Update, target: Target) -> TunableSpace:
    """Units per block, and how many of them at a time, in whole tiles of the vectors that
    neighbours share."""
    step = SUBLANES * _sharing(update)
    blocks = _near(step, BLOCK_BYTES / (_padded(update) * itemsize(update.anchor.dtype)))
    chunks = _near(step, CHUNK_ELEMENTS / _padded(update))
    usable = target.vmem_bytes * VMEM_SHARE
    fitting = tuple(b for b in blocks if 2 * b * _moved_bytes(update) <= usable)
    if min(chunks) * _padded(update) > 2 * CHUNK_ELEMENTS:
        raise Unsupported("the matrices are too large for a few of them to be worked on at once")
    if not fitting:
        raise Unsupported("a few of the matrices do not fit in VMEM")
    together = tuple(c for c in chunks if c <= max(fitting))
    return {"block": fitting, "together": together or (step,)}


def _near(step: int, wanted: float) -> tuple[int, ...]:
    """Powers of two times `step`: the last one below `wanted`, half and twice as many."""
    best = step
    while best * 2 <= wanted:
        best *= 2
    return tuple(n for n in (best, best // 2, best * 2) if n >= step)


def _matched(info: TaskInfo, program: Program) -> Update:
    """The program as an update, products with vectors written as sums."""
    if any(t.op == "dot" for t in program.terms):
        summed = without_vector_products(info)
        if any(node.op == "dot_general" for node in summed.graph.nodes):
            raise Unsupported("it holds a product of matrices")
        program = canonicalise(summed)
    return match(program)


def _sharing(update: Update) -> int:
    """Most units that share a vector which the kernel reads."""
    leading = [update.places[t] for t in update.brought()]
    extent = update.program.extent
    return max((extent(update.units) // extent(a) for a in leading if a), default=1)


def _padded(update: Update) -> int:
    _, rows, cols = update.shape
    return -(-rows // SUBLANES) * SUBLANES * -(-cols // LANES) * LANES


def _moved_bytes(update: Update) -> int:
    """Bytes of VMEM per unit of the matrices that move, and of vectors at their widest."""
    matrices = [t for t in (*update.brought(), *update.results) if update.full(t)]
    vectors = len(update.brought()) + len(update.results) - len(matrices)
    _, rows, cols = update.shape
    return 4 * (_padded(update) * len(matrices) + vectors * max(rows, cols, LANES))
