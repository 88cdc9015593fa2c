"""DMAs and semaphores of one core."""

from __future__ import annotations

from maxkernel.worker.mosaic.errors import BadArtifact, Deadlock, Unsupported
from maxkernel.worker.mosaic.lower import Frame, Lowering, Step, handles
from maxkernel.worker.mosaic.memory import Machine, Ref, Semaphore
from maxkernel.worker.mosaic.syntax import Op


def _cell(ref: Ref) -> Semaphore:
    found = ref.array.item() if ref.array.ndim == 0 else None
    if not isinstance(found, Semaphore):
        raise BadArtifact("a semaphore operand that is not one semaphore")
    return found


def _local(groups: tuple[tuple[int, ...], ...], names: tuple[str, ...]) -> None:
    for group, name in zip(groups, names, strict=True):
        if group:
            raise Unsupported(f"{name}: only local DMAs and signals are executed")


@handles("tpu.enqueue_dma", effect="write")
def enqueue(op: Op, c: Lowering) -> Step:
    """Start a DMA."""
    (source,), remote, (target,), semaphores, *devices = op.groups()
    _local((remote, *devices), ("a source semaphore", "a device id", "a core id", "a subcore id"))
    if len(semaphores) != 1:
        raise BadArtifact("a DMA without a semaphore")
    (semaphore,) = semaphores
    location = op.location or "an unknown line"

    def step(r: Frame) -> None:
        r[0].start(r[source], r[target], _cell(r[semaphore]), location)

    return step


@handles("tpu.wait_dma2", effect="write")
def wait(op: Op, c: Lowering) -> Step:
    """Wait for as many bytes as the destination has."""
    (semaphore,), _, (target,), *devices = op.groups()
    _local(tuple(devices), ("a device id", "a core id"))

    def step(r: Frame) -> None:
        machine: Machine = r[0]
        cell = _cell(r[semaphore])
        if not cell.dma:
            raise BadArtifact("a DMA wait on a semaphore that is not a DMA semaphore")
        machine.wait(cell, r[target].bytes())

    return step


@handles("tpu.sem_signal", effect="write")
def signal(op: Op, c: Lowering) -> Step:
    """Add to a semaphore."""
    (semaphore,), (amount,), *devices = op.groups()
    _local(tuple(devices), ("a device id", "a core id", "a subcore id"))

    def step(r: Frame) -> None:
        cell = _cell(r[semaphore])
        if cell.dma:
            raise Unsupported("a signal to a DMA semaphore")
        cell.count += r[amount]

    return step


@handles("tpu.sem_wait", effect="write")
def wait_semaphore(op: Op, c: Lowering) -> Step:
    """Wait until a semaphore holds an amount, and take it."""
    semaphore, amount = op.operands

    def step(r: Frame) -> None:
        cell = _cell(r[semaphore])
        if cell.dma:
            r[0].wait(cell, r[amount])
        elif cell.count < r[amount]:
            raise Deadlock(
                f"a wait for {r[amount]} on a semaphore that holds {cell.count}, with nobody left "
                "to signal it: the kernel hangs here"
            )
        else:
            cell.count -= r[amount]

    return step


@handles("tpu.sem_read", effect="write")
def read_semaphore(op: Op, c: Lowering) -> Step:
    """A semaphore's value."""
    (semaphore,), (o,) = op.operands, op.results

    def step(r: Frame) -> None:
        cell = _cell(r[semaphore])
        if cell.dma:
            raise Unsupported("reading a DMA semaphore, whose value depends on timing")
        r[0].undefined = True
        r[o] = cell.count

    return step
