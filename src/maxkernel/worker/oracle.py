"""The oracle: a reference's jaxpr with every small float promoted to a wide one.

Each value whose dtype is bf16, f16 or f32 is carried in `wide` instead, and products use the
highest precision, so no step rounds to a small type. Conversions to float8 and to integers
stay: they are deliberate quantisation. Invariant: the dtype of every value is `promoted` of the
dtype in the jaxpr.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateUsage=false, reportMissingTypeStubs=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src import core

from maxkernel.worker.graph import inner_call
from maxkernel.worker.jaxprs import constants, nested, open_jaxpr

_SMALL = frozenset({"bfloat16", "float16", "float32"})
_PRODUCTS = frozenset({"dot_general", "conv_general_dilated", "ragged_dot_general", "ragged_dot"})
_BITWISE = frozenset({"bitcast_convert_type", "nextafter", "random_uniform", "random_gamma"})
"""Primitives that depend on the bits of their type: they run on the type that they were given."""

_DTYPE_PARAMS = ("new_dtype", "preferred_element_type", "dtype", "out_dtype", "accumulation_dtype")


def promoted_function(jaxpr: Any, wide: str) -> Callable[..., list[Any]]:
    """The oracle of a closed jaxpr, for the original inputs; `wide` is `float64` or `float32`.

    Call it (or lower it) under jax.enable_x64(True) for float64. Raises NotImplementedError for
    primitives that cannot be promoted.
    """
    walker = _Promotion(np.dtype(wide))

    def run(*arrays: Any) -> list[Any]:
        return walker.closed(jaxpr, [walker.widen(array) for array in arrays])

    return run


def _dtype(atom: Any) -> Any:
    return atom.aval.dtype


class _Promotion:
    def __init__(self, wide: np.dtype[Any]) -> None:
        self.wide = wide
        self.rules: dict[str, Callable[[Any, list[Any]], Sequence[Any]]] = {
            "scan": self._scan,
            "while": self._while,
            "cond": self._cond,
            "reduce_precision": self._reduce_precision,
            "pallas_call": self._refuse,
        }

    def promoted(self, dtype: Any) -> Any:
        return self.wide if str(dtype) in _SMALL else dtype

    def widen(self, array: Any) -> Any:
        target = self.promoted(array.dtype)
        return array if array.dtype == target else array.astype(target)

    def closed(self, jaxpr: Any, args: Sequence[Any]) -> list[Any]:
        """Outputs of a jaxpr on widened arguments."""
        inner = open_jaxpr(jaxpr)
        known: dict[Any, Any] = dict(zip(inner.invars, args, strict=True))
        for var, data in zip(inner.constvars, constants(jaxpr), strict=True):
            known[var] = self.widen(jnp.asarray(data, _dtype(var)))

        def read(atom: Any) -> Any:
            if isinstance(atom, core.Literal):
                return self.widen(jnp.asarray(atom.val, _dtype(atom)))
            return known[atom]

        for equation in inner.eqns:
            results = self._apply(equation, [read(atom) for atom in equation.invars])
            for var, result in zip(equation.outvars, results, strict=True):
                known[var] = self._fit(result, var.aval)
        return [read(atom) for atom in inner.outvars]

    def _fit(self, value: Any, aval: Any) -> Any:
        dtype = getattr(aval, "dtype", None)
        if dtype is None or not hasattr(value, "astype") or value.dtype == self.promoted(dtype):
            return value
        return value.astype(self.promoted(dtype))

    def _apply(self, equation: Any, args: list[Any]) -> Sequence[Any]:
        called = inner_call(equation)
        if called is not None:
            return self.closed(called, args)
        name = equation.primitive.name
        if name in self.rules:
            return self.rules[name](equation, args)
        if name in _BITWISE:
            args = [
                arg.astype(atom.aval.dtype) if str(atom.aval.dtype) in _SMALL else arg
                for arg, atom in zip(args, equation.invars, strict=True)
            ]
            return self._bind(equation, args, dict(equation.params))
        params = self._params(equation)
        if name in _PRODUCTS:
            params["precision"] = jax.lax.Precision.HIGHEST
            if str(equation.outvars[0].aval.dtype) in _SMALL:
                args = [
                    arg.astype(self.wide) if jnp.issubdtype(arg.dtype, jnp.floating) else arg
                    for arg in args
                ]
        return self._bind(equation, args, params)

    def _bind(self, equation: Any, args: list[Any], params: dict[str, Any]) -> Sequence[Any]:
        result = equation.primitive.bind(*args, **params)
        return result if equation.primitive.multiple_results else [result]

    def _params(self, equation: Any) -> dict[str, Any]:
        params = dict(equation.params)
        for name in _DTYPE_PARAMS:
            if params.get(name) is not None:
                params[name] = self.promoted(params[name])
        for name, jaxpr in nested(equation):
            if "." in name:
                raise NotImplementedError(f"{equation.primitive.name} with several jaxprs")
            params[name] = self._retraced(jaxpr)
        return params

    def _retraced(self, jaxpr: Any) -> Any:
        avals: list[Any] = [var.aval for var in open_jaxpr(jaxpr).invars]
        structs = [jax.ShapeDtypeStruct(aval.shape, self.promoted(aval.dtype)) for aval in avals]

        def body(*args: Any) -> list[Any]:
            return self.closed(jaxpr, args)

        traced = jax.make_jaxpr(body)(*structs)
        return traced if isinstance(jaxpr, core.ClosedJaxpr) else traced.jaxpr

    def _scan(self, equation: Any, args: list[Any]) -> Sequence[Any]:
        p = equation.params
        consts = args[: p["num_consts"]]
        carry = args[p["num_consts"] : p["num_consts"] + p["num_carry"]]
        rows = args[p["num_consts"] + p["num_carry"] :]

        def body(carry: list[Any], row: list[Any]) -> tuple[list[Any], list[Any]]:
            out = self.closed(p["jaxpr"], [*consts, *carry, *row])
            return out[: p["num_carry"]], out[p["num_carry"] :]

        last, stacked = jax.lax.scan(
            body, carry, rows, length=p["length"], reverse=p["reverse"], unroll=p["unroll"]
        )
        return [*last, *stacked]

    def _while(self, equation: Any, args: list[Any]) -> Sequence[Any]:
        p = equation.params
        cond_consts = args[: p["cond_nconsts"]]
        body_consts = args[p["cond_nconsts"] : p["cond_nconsts"] + p["body_nconsts"]]
        return jax.lax.while_loop(
            lambda carry: self.closed(p["cond_jaxpr"], [*cond_consts, *carry])[0],
            lambda carry: self.closed(p["body_jaxpr"], [*body_consts, *carry]),
            args[p["cond_nconsts"] + p["body_nconsts"] :],
        )

    def _cond(self, equation: Any, args: list[Any]) -> Sequence[Any]:
        def branch(jaxpr: Any) -> Callable[..., list[Any]]:
            def run(*operands: Any) -> list[Any]:
                return self.closed(jaxpr, operands)

            return run

        branches = [branch(jaxpr) for jaxpr in equation.params["branches"]]
        return jax.lax.switch(args[0], branches, *args[1:])

    def _reduce_precision(self, equation: Any, args: list[Any]) -> Sequence[Any]:
        """Rounding to bf16, f16 or f32 is dropped like every other; smaller formats are kept."""
        if equation.params["mantissa_bits"] >= 7:
            return args
        return self._bind(equation, args, dict(equation.params))

    def _refuse(self, equation: Any, args: list[Any]) -> Sequence[Any]:
        raise NotImplementedError(f"{equation.primitive.name} in a reference")
