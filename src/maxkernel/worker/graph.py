"""A reference's jaxpr as our operator graph: flat, plain data, without dead nodes."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateUsage=false, reportMissingTypeStubs=false

from __future__ import annotations

import dataclasses
import enum
from typing import Any

import numpy as np
from jax._src import core

from maxkernel.types.graph import Graph, Node, Value
from maxkernel.worker.jaxprs import constants, nested, open_jaxpr

INLINED = frozenset(
    "jit pjit closed_call core_call core_closed_call remat remat2 checkpoint custom_jvp_call "
    "custom_vjp_call custom_vjp_call_jaxpr custom_lin".split()
)
"""Primitives that only call their jaxpr."""

CONSTANT_LIMIT = 4096
"""Largest number of elements of an array constant whose data the graph holds."""


def graph_of(jaxpr: Any) -> Graph:
    """The graph of a closed jaxpr."""
    builder = _Builder()
    inputs = [builder.value(var.aval) for var in open_jaxpr(jaxpr).invars]
    outputs = builder.inline(jaxpr, inputs)
    return _without_dead(builder, tuple(inputs), tuple(outputs))


def inner_call(equation: Any) -> Any:
    """The jaxpr that an equation merely calls; None for every other primitive."""
    if equation.primitive.name not in INLINED:
        return None
    return next((jaxpr for _, jaxpr in nested(equation)), None)


class _Builder:
    def __init__(self) -> None:
        self.values: list[Value] = []
        self.nodes: list[Node] = []
        self.constants: dict[int, Any] = {}

    def value(self, aval: Any, literal: float | int | bool | None = None) -> int:
        weak = bool(getattr(aval, "weak_type", False))
        self.values.append(Value(tuple(aval.shape), str(aval.dtype), literal, weak))
        return len(self.values) - 1

    def constant(self, aval: Any, data: Any) -> int:
        array = np.asarray(data)
        if array.ndim == 0:
            return self.value(aval, _plain(array))
        index = self.value(aval)
        self.constants[index] = _plain(array) if array.size <= CONSTANT_LIMIT else None
        return index

    def inline(self, jaxpr: Any, inputs: list[int]) -> list[int]:
        inner = open_jaxpr(jaxpr)
        known: dict[Any, int] = dict(zip(inner.invars, inputs, strict=True))
        for var, data in zip(inner.constvars, constants(jaxpr), strict=True):
            known[var] = self.constant(var.aval, data)

        def index(atom: Any) -> int:
            if isinstance(atom, core.Literal):
                return self.constant(atom.aval, atom.val)
            return known[atom]

        for equation in inner.eqns:
            operands = [index(atom) for atom in equation.invars]
            called = inner_call(equation)
            if called is not None:
                results = self.inline(called, operands)
            else:
                results = [self.value(var.aval) for var in equation.outvars]
                self.nodes.append(_node(equation, operands, results))
            known.update(zip(equation.outvars, results, strict=True))
        return [index(atom) for atom in inner.outvars]


def _node(equation: Any, operands: list[int], results: list[int]) -> Node:
    bodies = {name: graph_of(_closed(jaxpr)) for name, jaxpr in nested(equation)}
    params = {
        name: plain_param(value)
        for name, value in equation.params.items()
        if not callable(value) and not any(body.split(".")[0] == name for body in bodies)
    }
    return Node(equation.primitive.name, tuple(operands), tuple(results), params, bodies)


def _closed(jaxpr: Any) -> Any:
    return jaxpr if isinstance(jaxpr, core.ClosedJaxpr) else core.ClosedJaxpr(jaxpr, ())


def plain_param(value: Any) -> Any:
    """A primitive's parameter in JSON form: dtypes and enums by name, records as tables."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return np.dtype(value).name
    if isinstance(value, np.ndarray | np.generic):
        return _plain(np.asarray(value))
    if hasattr(value, "_asdict"):
        return {name: plain_param(item) for name, item in value._asdict().items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain_param(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        return [plain_param(item) for item in value]
    if isinstance(value, dict):
        return {str(name): plain_param(item) for name, item in value.items()}
    return str(value)[:200]


def _plain(array: np.ndarray[Any, Any]) -> Any:
    if array.dtype.kind in "biu":
        return array.tolist()
    try:
        return array.astype(np.float64).tolist()
    except (TypeError, ValueError):
        return None


def _without_dead(builder: _Builder, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> Graph:
    """Keeps what the outputs need, and every input; renumbers the values."""
    live = set(outputs)
    nodes: list[Node] = []
    for node in reversed(builder.nodes):
        if live & set(node.outputs):
            live |= set(node.inputs)
            nodes.append(node)
    nodes.reverse()
    kept = sorted(live | set(inputs) | {i for node in nodes for i in node.outputs})
    new = {old: index for index, old in enumerate(kept)}

    def renumber(indices: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(new[i] for i in indices)

    return Graph(
        values=tuple(builder.values[i] for i in kept),
        inputs=renumber(inputs),
        outputs=renumber(outputs),
        nodes=tuple(
            Node(n.op, renumber(n.inputs), renumber(n.outputs), n.params, n.bodies) for n in nodes
        ),
        constants={new[i]: data for i, data in builder.constants.items() if i in new},
    )
