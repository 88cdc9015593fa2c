"""A program's facts and errors in the shared vocabulary, read from the artifact alone."""

from __future__ import annotations

import math
import re

import numpy as np

from maxkernel.types.artifact import ArtifactFacts, PallasCall
from maxkernel.types.evaluation import Failure, FailureKind, Stage
from maxkernel.worker.mosaic.artifact import Program
from maxkernel.worker.mosaic.dtypes import bits
from maxkernel.worker.mosaic.errors import (
    BadArtifact,
    BrokenPromise,
    Exhausted,
    MosaicError,
    Unsupported,
)
from maxkernel.worker.mosaic.facts import gather_facts
from maxkernel.worker.mosaic.grid import BlockMap, all_steps, region
from maxkernel.worker.mosaic.memory import SEMAPHORES
from maxkernel.worker.mosaic.model import Kernel, Options, Window
from maxkernel.worker.mosaic.syntax import Type

_PREFIXES = ("stablehlo.", "func.")
_ADVICE: dict[type[MosaicError], tuple[FailureKind, str]] = {
    Exhausted: ("timeout", "bound the loops of the kernel, or choose smaller check inputs"),
    Unsupported: ("unsupported", "express this with operations that the checker knows"),
    BadArtifact: ("forbidden", "use jax as it is: the artifact is not what a plain capture makes"),
    BrokenPromise: ("hazard", "remove the promise or keep it (`pl.multiple_of`, `checkify`)"),
}


def failure_of(error: MosaicError, stage: Stage = "check", source: str = "") -> Failure:
    """An error as a value; its line is given when it lies in the file called `source`."""
    kind, advice = _ADVICE.get(type(error), ("hazard", "order the accesses and DMAs of the kernel"))
    file, _, line = error.location.rpartition(":")
    mine = bool(source) and file.endswith(source) and line.isdigit()
    return Failure(
        stage=stage,
        kind=kind,
        message=str(error),
        advice=advice,
        detail=type(error).__name__,
        line=int(line) if mine else None,
    )


def artifact_facts(program: Program, check: Program | None = None) -> ArtifactFacts:
    """Facts for the judge's static rules; `check` is the capture at check size."""
    facts = gather_facts(program)
    return ArtifactFacts(
        pallas_calls=tuple(
            _call(kernel, k in facts.reaching) for k, kernel in enumerate(program.kernels)
        ),
        outputs=program.outputs,
        check_outputs=check.outputs if check else (),
        forbidden=facts.forbidden,
        constant_bytes=facts.constant_bytes,
        primitives={
            re.sub("|".join(map(re.escape, _PREFIXES)), "", name): count
            for name, count in facts.operations.items()
        },
    )


def _call(kernel: Kernel, reaches: bool) -> PallasCall:
    spaces = kernel.spaces
    piped = [k for k, w in enumerate(kernel.windows) if w.transform is not None]
    whole = [k for k, s in enumerate(spaces) if k not in piped and s not in ("any", "hbm")]
    arrays = (*kernel.inputs, *kernel.outputs)
    vmem = [k for k in (*piped, *whole) if spaces[k] != "smem"]
    return PallasCall(
        name=kernel.name,
        grid=tuple(n if n >= 0 else -1 for n in kernel.grid),
        blocks=tuple(
            w.bounds if w.transform else t.shape
            for w, t in zip(kernel.windows, arrays, strict=True)
        ),
        block_bytes=int(sum(_block_bytes(kernel.windows[k], arrays[k]) for k in vmem)),
        scratch_bytes=int(sum(t.size * _bytes(t) for t in kernel.scratch if t.space == "vmem")),
        moved_bytes=_moved(kernel, arrays) if len(piped) == len(arrays) else 0.0,
        reaches_output=reaches,
    )


def _bytes(t: Type) -> float:
    return 0.0 if t.element in SEMAPHORES else bits(t.element.replace("ui", "i")) / 8


def _block_bytes(window: Window, array: Type) -> float:
    shape = window.bounds if window.transform else array.shape
    return math.prod(shape) * _bytes(array)


def _moved(kernel: Kernel, arrays: tuple[Type, ...]) -> float:
    """Bytes of all blocks that the pipeline moves; a block that does not change is not moved.

    Zero where the blocks depend on data (scalar prefetch, dynamic bounds).
    """
    if kernel.prefetch or kernel.dynamic_bounds:
        return 0.0
    options = Options()
    steps = all_steps(kernel.grid, options.steps)
    total = 0.0
    for window, array in zip(kernel.windows, arrays, strict=True):
        assert window.transform is not None
        table = BlockMap(window.transform, options).table(steps, (), kernel.grid)
        changed = np.ones(len(table), np.bool_)
        changed[1:] = (table[1:] != table[:-1]).any(1)
        blocks, counts = np.unique(table[changed], axis=0, return_counts=True)
        for block, count in zip(blocks.tolist(), counts.tolist(), strict=True):
            inside = region(window, tuple(block), array.shape, kernel.name).inside
            total += count * math.prod(s.stop - s.start for s in inside) * _bytes(array)
    return total
