"""What reference and oracle give at full size, for the elements that a spot check knows.

Where the known elements are a few boxes, the oracle is computed on what the boxes need alone. It
works in float32 with highest precision: float64 would double the memory. The reference runs whole
and rounds after every operator: what XLA would leave out at this size alone would make the
allowance smaller than at the check size. A task that is too large for that has both computed in
boxes, by one program, in which a product that both begin with is computed once.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import functools
import itertools
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from maxkernel.worker import work
from maxkernel.worker.arguments import Arguments, drawing
from maxkernel.worker.exporting import evaluate, rounding_options
from maxkernel.worker.graph import graph_of
from maxkernel.worker.oracle import promoted_function
from maxkernel.worker.parts import Flat, Sizes, part_function
from maxkernel.worker.task_module import TaskModule
from maxkernel.worker.trace import Traced

BOXES_LIMIT = 128
"""Boxes of one output that are computed one by one."""

COMPILATION = 1e10
"""Operations that take a core about as long as compiling reference or oracle."""

FLOPS_LIMIT = 1e12
"""Operations of products that reference and oracle may take each: half a minute on a laptop."""

_HIGHEST = {"dot_general": {"precision": jax.lax.Precision.HIGHEST}}
"""What a CPU does with products of float32 in any case. Said of the reference's products too, they
are the oracle's wherever the operands are the same numbers."""

Array = np.ndarray[Any, Any]
Box = tuple[slice, ...]


@dataclass(frozen=True)
class Truths:
    """The known elements of one output, flat."""

    candidate: Array
    reference: Array
    oracle: Array


@dataclass
class FullSize:
    """A task at full size; what is compiled for it is compiled when it is first used."""

    module: TaskModule
    traced: Traced
    _compiled: dict[tuple[int, Sizes], Any] = field(default_factory=dict[tuple[int, Sizes], Any])
    _costs: dict[tuple[int, Sizes], Cost] = field(default_factory=dict[tuple[int, Sizes], "Cost"])

    @functools.cached_property
    def draw(self) -> Callable[[int], Arguments]:
        """From a seed to inputs."""
        return drawing(self.module, self.module.full, "inputs", often=True)

    @functools.cached_property
    def cost(self) -> Cost:
        """Of the reference."""
        return cost_of(self.traced.jaxpr)

    @property
    def large(self) -> bool:
        """Whether neither reference nor oracle can be computed whole."""
        return self.cost.flops > FLOPS_LIMIT

    @functools.cached_property
    def _reference(self) -> Any:
        return self._build(evaluate(self.traced.jaxpr.jaxpr, self.traced.jaxpr.consts))

    @functools.cached_property
    def _oracle(self) -> Any:
        return self._build(promoted_function(self.traced.jaxpr, "float32"))

    @functools.cached_property
    def _flat(self) -> Flat:
        """The results of the oracle; of a large task, those of the reference after them."""
        functions = [promoted_function(self.traced.jaxpr, "float32")]
        if self.large:
            functions.append(evaluate(self.traced.jaxpr.jaxpr, self.traced.jaxpr.consts))

        def all_of_them(*arrays: Any) -> list[Any]:
            return [result for function in functions for result in function(*arrays)]

        return Flat(jax.make_jaxpr(all_of_them)(*self._structs()), _HIGHEST)

    def plan(self, known: Sequence[Array]) -> Work:
        """How to compute the oracle where the outputs are `known`."""
        boxes = {number: boxes_of(mask) for number, mask in enumerate(known) if mask.any()}
        keys = [(number, sizes_of(box)) for number, found in boxes.items() for box in found]
        at_once = Work(None, self.cost.flops)
        if any(len(found) > BOXES_LIMIT for found in boxes.values()):
            return at_once
        try:
            costs = [self._cost(key) for key in keys]
        except Exception as error:
            sys.stderr.write(f"not cut to boxes: {type(error).__name__}: {error}\n")
            return at_once
        apart = sum(c.operations for c in costs) + COMPILATION * len(set(keys))
        if not self.large and apart >= self.cost.operations + COMPILATION:
            return at_once
        return Work(boxes, sum(c.flops for c in costs))

    def truths(
        self, plan: Work, inputs: Sequence[Any], outputs: Sequence[Array], known: Sequence[Array]
    ) -> list[Truths]:
        """Of every output of which something is known."""
        references = None if self.large else _run(self._reference, inputs)
        if plan.boxes is not None:
            return [
                self._in_boxes(number, found, inputs, outputs, references)
                for number, found in plan.boxes.items()
            ]
        assert references is not None
        return [
            Truths(*(_at(mask, array) for array in arrays))
            for mask, *arrays in zip(
                known, outputs, references, _run(self._oracle, inputs), strict=True
            )
            if mask.any()
        ]

    def _in_boxes(
        self,
        number: int,
        boxes: Sequence[Box],
        inputs: Sequence[Any],
        outputs: Sequence[Array],
        references: Sequence[Array] | None,
    ) -> Truths:
        found: list[tuple[Array, Array, Array]] = []
        for box in boxes:
            key = number, sizes_of(box)
            if key not in self._compiled:
                starts = [jax.ShapeDtypeStruct((), np.int32)] * len(box)
                lowered = jax.jit(self._part(key)).lower(starts, self._structs())
                self._compiled[key] = lowered.compile(rounding_options())
            starts = [np.int32(span.start) for span in box]
            oracle, *rest = map(np.asarray, self._compiled[key](starts, list(inputs)))
            own = rest[0] if references is None else references[number][box]
            found.append((outputs[number][box], own, oracle))
        kinds = zip(*found, strict=True)
        return Truths(*(np.concatenate([part.reshape(-1) for part in kind]) for kind in kinds))

    def _part(self, key: tuple[int, Sizes]) -> Callable[..., list[Any]]:
        """The oracle in a box; of a large task, the reference too."""
        number, sizes = key
        step = len(self.traced.outputs)
        return part_function(
            self._flat, dict.fromkeys(range(number, len(self._flat.outputs), step), sizes)
        )

    def _cost(self, key: tuple[int, Sizes]) -> Cost:
        """Of the oracle, or the reference, in a box."""
        if key not in self._costs:
            starts = [jax.ShapeDtypeStruct((), np.int32)] * len(key[1])
            cost = cost_of(jax.make_jaxpr(self._part(key))(starts, self._structs()))
            share = 1 / (1 + self.large)
            self._costs[key] = Cost(share * cost.flops, share * cost.operations)
        return self._costs[key]

    def _structs(self) -> list[jax.ShapeDtypeStruct]:
        arrays = self.traced.arguments.arrays
        return [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays]

    def _build(self, function: Callable[..., Any]) -> Any:
        lowered = jax.jit(function).lower(*self._structs())
        return lowered.compile(rounding_options())


@dataclass(frozen=True)
class Cost:
    """Of a function: operations of its products, and those with one for each element of a value."""

    flops: float
    operations: float


@dataclass(frozen=True)
class Work:
    """How the truth of some elements is computed."""

    boxes: dict[int, list[Box]] | None
    """Of every output of which something is known; None: the oracle is computed whole."""
    flops: float
    """Of the oracle's products, as far as they are computed."""


def cost_of(jaxpr: Any) -> Cost:
    """Of a closed jaxpr; elements inside loops count once."""
    graph = graph_of(jaxpr)
    flops = work.flops(graph)
    return Cost(flops, flops + sum(math.prod(value.shape) for value in graph.values))


def boxes_of(mask: Array) -> list[Box]:
    """Boxes that do not overlap and hold exactly the elements that are set; stops early at too
    many of them."""
    if mask.all():
        return [tuple(slice(0, n) for n in mask.shape)]
    if not mask.any():
        return []
    changes = (mask[1:] != mask[:-1]).reshape(len(mask) - 1, -1).any(1)
    edges = [0, *(int(n) + 1 for n in np.flatnonzero(changes)), len(mask)]
    found: list[Box] = []
    for first, last in itertools.pairwise(edges):
        found += [(slice(first, last), *inner) for inner in boxes_of(mask[first])]
        if len(found) > BOXES_LIMIT:
            break
    return found


def sizes_of(box: Box) -> Sizes:
    """The sizes of a box."""
    return tuple(span.stop - span.start for span in box)


def _at(known: Array, array: Array) -> Array:
    """The elements that are known, flat."""
    return array.reshape(-1) if known.all() else array[known]


def _run(compiled: Any, inputs: Sequence[Any]) -> list[Array]:
    return [np.asarray(array) for array in jax.tree.leaves(compiled(*inputs))]
