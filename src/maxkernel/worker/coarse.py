"""The reference as a careless kernel would compute it: products and sums accumulated in bf16."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateUsage=false, reportMissingTypeStubs=false

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax._src import core

from maxkernel.worker.graph import inner_call
from maxkernel.worker.jaxprs import constants, open_jaxpr

PIECES = 16
"""Partial sums that are added up in bf16: a K axis of 4096 in blocks of 256."""


def coarse_function(jaxpr: Any) -> Callable[..., list[Any]] | None:
    """The closed jaxpr with coarse products and sums; None when it has none at top level."""
    walker = _Coarse()

    def run(*arrays: Any) -> list[Any]:
        return walker.closed(jaxpr, arrays)

    jax.eval_shape(run, *(_struct(var) for var in open_jaxpr(jaxpr).invars))
    return run if walker.changed else None


def _struct(var: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(var.aval.shape, var.aval.dtype)


class _Coarse:
    def __init__(self) -> None:
        self.changed = False

    def closed(self, jaxpr: Any, args: Sequence[Any]) -> list[Any]:
        inner = open_jaxpr(jaxpr)
        known: dict[Any, Any] = dict(zip(inner.invars, args, strict=True))
        known.update(zip(inner.constvars, constants(jaxpr), strict=True))

        def read(atom: Any) -> Any:
            return atom.val if isinstance(atom, core.Literal) else known[atom]

        for equation in inner.eqns:
            results = self._apply(equation, [read(atom) for atom in equation.invars])
            known.update(zip(equation.outvars, results, strict=True))
        return [read(atom) for atom in inner.outvars]

    def _apply(self, equation: Any, args: list[Any]) -> Sequence[Any]:
        called = inner_call(equation)
        if called is not None:
            return self.closed(called, args)
        if equation.primitive.name == "dot_general" and _is_float(equation.outvars[0].aval):
            return [self._product(equation, args)]
        if equation.primitive.name == "reduce_sum" and _is_float(equation.outvars[0].aval):
            return [self._sum(equation, args)]
        result = equation.primitive.bind(*args, **equation.params)
        return result if equation.primitive.multiple_results else [result]

    def _product(self, equation: Any, args: list[Any]) -> Any:
        """A product in PIECES over its first contracted axis, the pieces added in bf16."""
        self.changed = True
        (left_axes, right_axes), _ = equation.params["dimension_numbers"]
        left, right = args
        if not left_axes or left.shape[left_axes[0]] < PIECES:
            return equation.primitive.bind(*args, **equation.params)
        size = left.shape[left_axes[0]]
        total: Any = None
        for start, stop in _pieces(size):
            piece = equation.primitive.bind(
                jax.lax.slice_in_dim(left, start, stop, axis=left_axes[0]),
                jax.lax.slice_in_dim(right, start, stop, axis=right_axes[0]),
                **equation.params,
            ).astype(jnp.bfloat16)
            total = piece if total is None else total + piece
        return total.astype(equation.outvars[0].aval.dtype)

    def _sum(self, equation: Any, args: list[Any]) -> Any:
        self.changed = True
        axis = max(equation.params["axes"], default=None)
        if axis is None or args[0].shape[axis] < PIECES:
            return equation.primitive.bind(*args, **equation.params)
        total: Any = None
        for start, stop in _pieces(args[0].shape[axis]):
            part = jax.lax.slice_in_dim(args[0], start, stop, axis=axis)
            piece = equation.primitive.bind(part, **equation.params).astype(jnp.bfloat16)
            total = piece if total is None else total + piece
        return total.astype(equation.outvars[0].aval.dtype)


def _pieces(size: int) -> list[tuple[int, int]]:
    edges = [size * n // PIECES for n in range(PIECES + 1)]
    return list(itertools.pairwise(edges))


def _is_float(aval: Any) -> bool:
    return bool(jnp.issubdtype(aval.dtype, jnp.floating))
