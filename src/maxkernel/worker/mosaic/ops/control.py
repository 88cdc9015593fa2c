"""Structured control flow, grid queries, and ops that only talk to the compiler or a profiler."""

from __future__ import annotations

import numpy as np

from maxkernel.worker.mosaic.errors import BadArtifact, BrokenPromise, Unsupported
from maxkernel.worker.mosaic.lower import Frame, Lowering, Step, handles
from maxkernel.worker.mosaic.memory import Machine
from maxkernel.worker.mosaic.syntax import Block, Op


def _scalar_control(op: Op, c: Lowering) -> None:
    if c.lanes:
        raise Unsupported("control flow that differs between grid steps", op=op.name)


def _yields(block: Block) -> tuple[int, ...]:
    return block.ops[-1].operands if block.ops else ()


def _move(r: Frame, sources: tuple[int, ...], targets: tuple[int, ...]) -> None:
    values = [r[s] for s in sources]
    for t, value in zip(targets, values, strict=True):
        r[t] = value


@handles("scf.yield", "tpu.yield", "func.return", "scf.condition", effect="write")
def terminator(op: Op, c: Lowering) -> None:
    """The enclosing op reads the operands."""


@handles("scf.if", effect="write")
def branch(op: Op, c: Lowering) -> Step:
    """One of two blocks."""
    _scalar_control(op, c)
    (condition,) = op.operands
    then, other = op.regions[0], op.regions[1] if len(op.regions) > 1 else Block((), ())
    run_then, run_other = c.block(then), c.block(other)
    results = op.results
    yes, no = _yields(then)[: len(results)], _yields(other)[: len(results)]
    if not results:

        def plain(r: Frame) -> None:
            if r[condition]:
                run_then(r)
            else:
                run_other(r)

        return plain

    def step(r: Frame) -> None:
        if r[condition]:
            run_then(r)
            _move(r, yes, results)
        else:
            run_other(r)
            _move(r, no, results)

    return step


@handles("scf.for", effect="write")
def counted(op: Op, c: Lowering) -> Step:
    """A loop with a signed trip range and carried values."""
    _scalar_control(op, c)
    low, high, by, *initial = op.operands
    (body,) = op.regions
    index, *carried = body.args
    run = c.block(body)
    starts, args, yields = tuple(initial), tuple(carried), _yields(body)

    def step(r: Frame) -> None:
        machine: Machine = r[0]
        if r[by] <= 0:
            raise BadArtifact("a loop whose step is not positive")
        _move(r, starts, args)
        for i in range(r[low], r[high], r[by]):
            machine.tick()
            r[index] = i
            run(r)
            _move(r, yields, args)
        _move(r, args, op.results)

    return step


@handles("scf.while", effect="write")
def conditional(op: Op, c: Lowering) -> Step:
    """A loop whose first block decides whether its second one runs."""
    _scalar_control(op, c)
    before, after = op.regions
    run_before, run_after = c.block(before), c.block(after)
    condition, *passed = _yields(before)
    back = _yields(after)

    def step(r: Frame) -> None:
        machine: Machine = r[0]
        _move(r, op.operands, before.args)
        while True:
            machine.tick()
            run_before(r)
            if not r[condition]:
                break
            _move(r, tuple(passed), after.args)
            run_after(r)
            _move(r, back, before.args)
        _move(r, tuple(passed), op.results)

    return step


@handles("tpu.region", "tpu.trace", effect="write")
def region(op: Op, c: Lowering) -> Step:
    """A scope: what it allocates must be at rest when it ends."""
    _scalar_control(op, c)
    (body,) = op.regions
    run = c.block(body)
    allocated = [o.results[0] for o in body.ops if o.name in ("memref.alloca", "tpu.sem_alloc")]
    yields = _yields(body)

    def step(r: Frame) -> None:
        run(r)
        for value in allocated:
            r[0].release(r[value])
        _move(r, yields, op.results)

    return step


@handles(
    "tpu.trace_start",
    "tpu.trace_stop",
    "tpu.trace_value",
    "tpu.log",
    "tpu.log_buffer",
    "tpu.delay",
    effect="write",
)
def ignored(op: Op, c: Lowering) -> None:
    """No effect on results."""


@handles("tpu.iteration_bound", effect="read")
def bound(op: Op, c: Lowering) -> Step:
    """A trip count of the grid."""
    (o,), axis = op.results, op.integer("dim")

    def step(r: Frame) -> None:
        r[o] = r[0].grid[axis]

    return step


@handles("tpu.device_id", "tpu.core_id")
def identity(op: Op, c: Lowering) -> None:
    """The interpreter is device 0, core 0."""
    c.set_constant(op.results[0], 0)


@handles("tpu.assume_multiple", effect="view")
def assume_multiple(op: Op, c: Lowering) -> Step:
    """A promise to the compiler, held to here."""
    (a,), (o,) = op.operands, op.results
    multiple = op.integer("multiple")

    def step(r: Frame) -> None:
        if np.any(r[a] % multiple):
            raise BrokenPromise(f"{r[a]} was promised to be a multiple of {multiple}")
        r[o] = r[a]

    return step


@handles("cf.assert", effect="write")
def check(op: Op, c: Lowering) -> Step:
    """An assertion of the kernel."""
    (a,) = op.operands

    def step(r: Frame) -> None:
        if not r[a]:
            raise BrokenPromise(f"the kernel's own assertion fails: {op.text('msg')}")

    return step
