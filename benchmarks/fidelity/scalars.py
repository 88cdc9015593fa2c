"""Values of the small integer operands of a program's Pallas calls, without running the program.

The jaxpr is read lazily: only what those operands depend on is evaluated, on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.extend import core

LIMIT = 1 << 18
"""Largest operand that is collected, in elements: scalar memory has as many words."""

Thunk = Callable[[], Any]


class Unknown(Exception):
    """A value that depends on an input without data, or on a kernel's result."""


def collect(closed: core.ClosedJaxpr, args: list[Any]) -> dict[str, list[dict[int, np.ndarray]]]:
    """Kernel name -> for each of its calls, in program order, operand position -> value.

    `args` are the flat inputs: arrays where values are known, shapes elsewhere.
    """
    found: dict[str, list[dict[int, np.ndarray]]] = {}
    _walk(closed.jaxpr, [_constant(c) for c in closed.consts], [_input(a) for a in args], found)
    return found


def _input(value: Any) -> Thunk:
    if isinstance(value, jax.ShapeDtypeStruct):
        return _unknown
    return _constant(value)


def _constant(value: Any) -> Thunk:
    return lambda: value


def _unknown() -> Any:
    raise Unknown


def _walk(
    jaxpr: core.Jaxpr,
    consts: list[Thunk],
    args: list[Thunk],
    found: dict[str, list[dict[int, np.ndarray]]],
) -> list[Thunk]:
    env: dict[Any, Thunk] = dict(
        zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *args], strict=True)
    )

    def read(atom: Any) -> Thunk:
        return _constant(atom.val) if isinstance(atom, core.Literal) else env[atom]

    for eqn in jaxpr.eqns:
        inputs = [read(atom) for atom in eqn.invars]
        if eqn.primitive.name == "pallas_call":
            _note(eqn, inputs, found)
            outputs: list[Thunk] = [_unknown] * len(eqn.outvars)
        else:
            outputs = _outputs(eqn, inputs, found)
        env.update(zip(eqn.outvars, outputs, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _outputs(eqn: Any, inputs: list[Thunk], found: Any) -> list[Thunk]:
    inner = _inner(eqn)
    if inner is not None and len(inner.jaxpr.invars) == len(inputs):
        return _walk(inner.jaxpr, [_constant(c) for c in inner.consts], inputs, found)
    if eqn.primitive.name == "scan":
        body = eqn.params["jaxpr"]
        first = eqn.params["num_consts"] + eqn.params["num_carry"]
        _walk(body.jaxpr, [_constant(c) for c in body.consts],
              [*inputs[:first], *map(_first, inputs[first:])], found)  # fmt: skip
    memo: list[Any] = []

    def evaluate() -> list[Any]:
        if not memo:
            values = [thunk() for thunk in inputs]
            with jax.default_device(jax.devices("cpu")[0]):
                result = eqn.primitive.bind(*values, **eqn.params)
            memo.append(list(result) if eqn.primitive.multiple_results else [result])
        return memo[0]

    return [lambda index=index: evaluate()[index] for index in range(len(eqn.outvars))]


def _first(thunk: Thunk) -> Thunk:
    return lambda: thunk()[0]


def _inner(eqn: Any) -> core.ClosedJaxpr | None:
    """The jaxpr of an equation that calls it once, with the equation's inputs."""
    if eqn.primitive.name in ("scan", "while", "cond"):
        return None
    for key in ("jaxpr", "call_jaxpr", "fun_jaxpr", "call"):
        inner = eqn.params.get(key)
        if isinstance(inner, core.ClosedJaxpr):
            return inner
        if isinstance(inner, core.Jaxpr):
            return core.ClosedJaxpr(inner, ())
    return None


def _note(eqn: Any, inputs: list[Thunk], found: dict[str, list[dict[int, np.ndarray]]]) -> None:
    known: dict[int, np.ndarray] = {}
    for index, (atom, thunk) in enumerate(zip(eqn.invars, inputs, strict=True)):
        if not np.issubdtype(atom.aval.dtype, np.integer) or atom.aval.size > LIMIT:
            continue
        try:
            known[index] = np.asarray(thunk())
        except Unknown:
            continue
    found.setdefault(_name(eqn), []).append(known)


def _name(eqn: Any) -> str:
    info = eqn.params.get("name_and_src_info")
    return str(getattr(info, "name", None) or eqn.params.get("name") or "")
