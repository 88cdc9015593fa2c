"""Compiles a function to a list of Python closures over a frame of values.

A frame is a list: entry 0 is the `Machine`, entry `v` the value numbered `v`. i1 scalars are
Python bools, other integer scalars Python ints in signed range, float scalars numpy scalars,
vectors numpy arrays, memrefs `Ref`s. In `lanes` mode integer scalars are numpy arrays instead, one
element per grid step, so that a window's transform is evaluated for the whole grid at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import length_hint
from typing import Any, Literal

import numpy as np

from maxkernel.worker.mosaic.dtypes import numpy_dtype
from maxkernel.worker.mosaic.errors import Exhausted, MosaicError, Unsupported
from maxkernel.worker.mosaic.model import Options
from maxkernel.worker.mosaic.syntax import Block, Func, Op, Type, walk

Frame = list[Any]
Step = Callable[[Frame], None]
Lower = Callable[[Op, "Lowering"], Step | None]
Effect = Literal["pure", "view", "read", "write"]
"""`view`: pure, and the result may share memory with an operand."""

FREE_BYTES = 1 << 18
"""Values at least this large are dropped from the frame after their last use."""
FOLD_BYTES = 64 << 20
"""Most bytes of values computed ahead because they depend on constants only."""


@dataclass(frozen=True, slots=True)
class Handler:
    """How one op is compiled and what it does to memory."""

    lower: Lower
    effect: Effect


ATTRIBUTES = {
    *("value", "predicate", "kind", "fastmath", "overflowFlags", "operandSegmentSizes"),
    *("strides", "offsets", "sizes", "static_position", "permutation", "add"),
    *("dimension", "dimensions", "dim", "axis", "reduction_dims", "times", "amount"),
    *("stride", "stride_dimension", "index", "source_type", "target_type", "multiple"),
    *("dimension_numbers", "transpose_lhs", "transpose_rhs", "transpose_lhs_hint", "precision"),
    *("priority", "strict_ordering", "level", "message", "label", "tag", "formatted", "msg"),
    *("approx", "full_range", "rounding_mode", "alignment", "nontemporal", "in_bounds"),
}
"""Attribute names that handlers read, or that only hint at speed; any other is refused, since the
compiler might know what it means."""
HANDLERS: dict[str, Handler] = {}


def handles(*names: str, effect: Effect = "pure") -> Callable[[Lower], Lower]:
    """Register a handler for ops of these names."""

    def register(lower: Lower) -> Lower:
        for name in names:
            HANDLERS[name] = Handler(lower, effect)
        return lower

    return register


def effect_of(op: Op) -> Effect:
    """What an op does to memory; unknown ops write."""
    handler = HANDLERS.get(op.name)
    return handler.effect if handler else "write"


def run_steps(steps: list[Step], ops: list[Op]) -> Step:
    """One step out of many; names the op in errors."""

    def run(frame: Frame) -> None:
        iterator = iter(steps)
        try:
            for step in iterator:
                step(frame)
        except Exception as error:
            op = ops[len(steps) - length_hint(iterator) - 1]
            raise _located(error, op) from error

    return run


def _located(error: Exception, op: Op) -> MosaicError:
    if isinstance(error, MosaicError):
        found = error
    elif isinstance(error, MemoryError):
        found = Exhausted("this machine has not enough memory for a value")
    else:
        found = Unsupported(f"{type(error).__name__}: {error}")
    if not found.op:
        found.op, found.location = op.name, op.location
    return found


class Lowering:
    """The compilation of one function."""

    def __init__(self, func: Func, options: Options, *, lanes: bool = False) -> None:
        self.func = func
        self.types = func.types
        self.options = options
        self.lanes = lanes
        self.frame: Frame = [None] * len(func.types)
        self.constant: set[int] = {0}
        self.folded = 0
        self.live: set[int] = set()
        self._mark(func.body)
        self.readonly = set(func.body.args) - written_args(func)
        self.viewable: set[int] = set()
        self.run = self.block(func.body)

    def _mark(self, block: Block) -> None:
        for op in reversed(block.ops):
            if effect_of(op) != "write" and not self.live.intersection(op.results):
                continue
            for region in op.regions:
                self._mark(region)
            self.live.update(op.operands)

    def type(self, value: int) -> Type:
        """Type of a value."""
        return self.types[value]

    def known(self, value: int) -> Any:
        """A constant's value, else None."""
        return self.frame[value] if value in self.constant else None

    def set_constant(self, value: int, to: Any) -> None:
        """Fix a value at compile time."""
        self.frame[value] = to
        self.constant.add(value)

    def block(self, block: Block) -> Step:
        """Compile straight-line code."""
        last = last_uses(block)
        self.viewable |= viewable_loads(block, last, self.readonly)
        dying: dict[int, list[int]] = {}
        for value, at in last.items():
            t = self.types[value]
            if at == len(block.ops) - 1:  # the enclosing op reads it after the block has run
                continue
            if t.kind == "vector" and t.size * numpy_dtype(t.element).itemsize >= FREE_BYTES:
                dying.setdefault(at, []).append(value)
        steps: list[Step] = []
        ops: list[Op] = []
        for at, op in enumerate(block.ops):
            step = self.op(op)
            if step is not None:
                steps.append(step)
                ops.append(op)
            dead = [v for v in dying.get(at, ()) if v not in self.constant]
            if dead:
                steps.append(_drop(dead))
                ops.append(op)
        return run_steps(steps, ops)

    def op(self, op: Op) -> Step | None:
        """Compile one op; None when nothing is left to do at run time."""
        handler = HANDLERS.get(op.name)
        if handler is None:
            raise Unsupported("this operation is not implemented", op=op.name, location=op.location)
        if handler.effect != "write" and not self.live.intersection(op.results):
            return None
        unknown = sorted(set(op.attrs) - ATTRIBUTES)
        if unknown:
            what = f"attribute {', '.join(unknown)}"
            raise Unsupported(what, op=op.name, location=op.location)
        try:
            step = handler.lower(op, self)
        except Exception as error:
            raise _located(error, op) from error
        foldable = handler.effect in ("pure", "view") and not self.lanes
        if step is None or not foldable or not self.constant.issuperset(op.operands):
            return step
        return self._fold(step, op)

    def _fold(self, step: Step, op: Op) -> Step | None:
        vectors = [t for t in map(self.type, op.results) if t.kind == "vector"]
        self.folded += sum(t.size * numpy_dtype(t.element).itemsize for t in vectors)
        if self.folded > FOLD_BYTES:
            return step
        try:
            with np.errstate(all="ignore"):
                step(self.frame)
        except MosaicError:
            return step
        self.constant.update(op.results)
        return None


def splat_of(value: Any) -> Any:
    """The one element that a constant vector repeats, else None."""
    if not isinstance(value, np.ndarray) or any(value.strides) or not value.size:  # pyright: ignore[reportUnknownMemberType]
        return None
    first: Any = value[(0,) * value.ndim]  # pyright: ignore[reportUnknownVariableType]
    return first


def _drop(values: list[int]) -> Step:
    def step(frame: Frame) -> None:
        for value in values:
            frame[value] = None

    return step


def written_args(func: Func) -> set[int]:
    """Arguments whose memory may be written, through any chain of slices and reshapes."""
    root = {a: a for a in func.body.args if func.types[a].kind == "memref"}
    written: set[int] = set()
    for op in func.walk():
        refs = [root[v] for v in op.operands if v in root]
        if op.name.startswith("tpu.memref_") or op.name == "tpu.reinterpret_cast":
            if refs:
                root[op.results[0]] = refs[0]
        elif op.name in ("tpu.enqueue_dma", "tpu.wait_dma2"):
            if op.name == "tpu.enqueue_dma":
                written.update(root[v] for v in op.groups()[2] if v in root)
        elif effect_of(op) == "write":
            written.update(refs)
    return written


def last_uses(block: Block) -> dict[int, int]:
    """For values defined in the block: position of the last op that uses them, inside or deeper."""
    last: dict[int, int] = {}
    mine: set[int] = set()
    for at, op in enumerate(block.ops):
        for inner in walk(Block((), (op,))):
            for value in inner.operands:
                if value in mine:
                    last[value] = at
        mine.update(op.results)
    _extend_views(block, last)
    return last


def _extend_views(block: Block, last: dict[int, int]) -> None:
    for op in reversed(block.ops):
        if effect_of(op) not in ("view", "read") or not op.results:
            continue
        for value in op.operands:
            if value in last:
                last[value] = max(last[value], last.get(op.results[0], 0))


def viewable_loads(block: Block, last: dict[int, int], readonly: set[int]) -> set[int]:
    """Results of loads that may be views of memory: nothing writes before their last use."""
    writes = [at for at, op in enumerate(block.ops) if effect_of(op) == "write"]
    found: set[int] = set()
    for at, op in enumerate(block.ops):
        if effect_of(op) != "read" or not op.results or not op.operands:
            continue
        end = last.get(op.results[0], at)
        between = [w for w in writes if at < w < end]
        final = block.ops[end]
        plain = not final.regions and end != len(block.ops) - 1
        if op.operands[0] in readonly or (not between and plain):
            found.add(op.results[0])
    return found
