"""Parts of a function's results, from the parts of its inputs that they need.

A few blocks of a product need a few rows of one operand and a few columns of the other. The
operators are the function's own, with the same types: only elements that nobody asked for are left
out (`part_rules`).
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateUsage=false, reportMissingTypeStubs=false

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax._src import core

from maxkernel.worker.graph import inner_call
from maxkernel.worker.jaxprs import constants, open_jaxpr
from maxkernel.worker.part_rules import Operator, Part, Plan, Shape, Span, merged, plan_of, whole

Sizes = tuple[int, ...]


@dataclass(frozen=True)
class _Step:
    primitive: Any
    params: dict[str, Any]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class Flat:
    """A closed jaxpr as a list of steps over numbered values, calls inlined.

    `params` replaces parameters of operators, by name.
    """

    def __init__(self, jaxpr: Any, params: Mapping[str, Mapping[str, Any]]) -> None:
        self._params = params
        self.shapes: list[Shape] = []
        self.constants: dict[int, Any] = {}
        self.steps: list[_Step] = []
        self.inputs = [self._value(var.aval) for var in open_jaxpr(jaxpr).invars]
        self.outputs = self._inline(jaxpr, self.inputs)

    def _value(self, aval: Any) -> int:
        self.shapes.append(tuple(getattr(aval, "shape", ())))
        return len(self.shapes) - 1

    def _constant(self, aval: Any, data: Any) -> int:
        index = self._value(aval)
        self.constants[index] = jax.numpy.asarray(data, aval.dtype)
        return index

    def _inline(self, jaxpr: Any, inputs: Sequence[int]) -> list[int]:
        inner = open_jaxpr(jaxpr)
        known: dict[Any, int] = dict(zip(inner.invars, inputs, strict=True))
        for var, data in zip(inner.constvars, constants(jaxpr), strict=True):
            known[var] = self._constant(var.aval, data)

        def index(atom: Any) -> int:
            if isinstance(atom, core.Literal):
                return self._constant(atom.aval, atom.val)
            return known[atom]

        for equation in inner.eqns:
            given = tuple(index(atom) for atom in equation.invars)
            called = inner_call(equation)
            if called is not None:
                made = self._inline(called, given)
            else:
                made = [self._value(var.aval) for var in equation.outvars]
                params = equation.params | self._params.get(equation.primitive.name, {})
                self.steps.append(_Step(equation.primitive, params, given, tuple(made)))
            known.update(zip(equation.outvars, made, strict=True))
        return [index(atom) for atom in inner.outvars]


def part_function(
    flat: Flat, wanted: Mapping[int, Sizes]
) -> Callable[[Sequence[Any], Sequence[Any]], list[Any]]:
    """A function from starts and the whole inputs to boxes of some results.

    `wanted` gives, by the number of a result, the sizes of its box: all results that have one have
    the same shape, and one box. The starts of the box are given one for each dimension.
    """

    def run(starts: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
        shape = flat.shapes[flat.outputs[next(iter(wanted))]]
        boxes = {
            number: tuple(
                Span(0, n) if size == n else Span(start, size)
                for start, size, n in zip(starts, sizes, shape, strict=True)
            )
            for number, sizes in wanted.items()
        }
        return _evaluated(flat, boxes, inputs)

    return run


def _evaluated(flat: Flat, boxes: Mapping[int, Part], inputs: Sequence[Any]) -> list[Any]:
    parts, plans = _plans(flat, boxes)
    known: dict[int, tuple[Any, Part]] = {
        index: (array, whole(flat.shapes[index]))
        for index, array in (*zip(flat.inputs, inputs, strict=True), *flat.constants.items())
    }
    for number, step in enumerate(flat.steps):
        plan = plans.get(number)
        if plan is None:
            continue
        needed = zip(step.inputs, plan.operands, strict=True)
        operands = [_taken(*known[index], part) for index, part in needed]
        bound = step.primitive.bind(*operands, **(step.params | plan.params))
        results = bound if step.primitive.multiple_results else [bound]
        for index, result in zip(step.outputs, results, strict=True):
            if index in parts:
                had = plan.result if plan.result is not None else whole(flat.shapes[index])
                known[index] = _taken(result, had, parts[index]), parts[index]
    return [_taken(*known[flat.outputs[number]], box) for number, box in boxes.items()]


def _plans(flat: Flat, boxes: Mapping[int, Part]) -> tuple[dict[int, Part], dict[int, Plan]]:
    """Which part of every value is needed, and how each needed step works, by its number."""
    parts: dict[int, Part] = {}
    plans: dict[int, Plan] = {}

    def need(index: int, part: Part) -> None:
        known = parts.get(index)
        parts[index] = part if known is None else merged(known, part, flat.shapes[index])

    for number, box in boxes.items():
        need(flat.outputs[number], box)
    for number in range(len(flat.steps) - 1, -1, -1):
        step = flat.steps[number]
        found = [index for index in step.outputs if index in parts]
        if not found:
            continue
        plan = _plan(flat, step, parts)
        plans[number] = plan
        for index, part in zip(step.inputs, plan.operands, strict=True):
            need(index, part)
    return parts, plans


def _plan(flat: Flat, step: _Step, parts: Mapping[int, Part]) -> Plan:
    """Several results are computed in one part, where they have one shape, else whole."""
    shapes = {flat.shapes[index] for index in step.outputs}
    operands = tuple(flat.shapes[index] for index in step.inputs)
    if len(shapes) != 1:
        return Plan(tuple(whole(shape) for shape in operands), None)
    (shape,) = shapes
    wanted: Part | None = None
    for index in step.outputs:
        if index in parts:
            wanted = parts[index] if wanted is None else merged(wanted, parts[index], shape)
    assert wanted is not None
    return plan_of(Operator(step.primitive.name, step.params, operands, shape), wanted)


def _taken(array: Any, had: Part, part: Part) -> Any:
    """Of a part that is had another one, which lies in it."""
    pairs = list(zip(had, part, strict=True))
    if all(a.same(b) for a, b in pairs):
        return array
    starts = [0 if a.same(b) else b.start for a, b in pairs]
    return jax.lax.dynamic_slice(array, starts, [b.size for b in part])
