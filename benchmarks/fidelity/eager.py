"""The programs that a function dispatches when it runs op by op, without jit.

Each operation on a device array is then compiled as a program of its own, and a profile of the run
holds the sum of their times. Small whole numbers have values here, because slices and loops are
steered by them; everything else is a shape.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from jax._src import core, dispatch

_LARGEST = 1 << 18
"""Elements up to which whole numbers have values."""


@dataclass
class Dispatch:
    """One program and how often it runs."""

    name: str
    function: Callable[..., Any]
    shapes: list[jax.ShapeDtypeStruct]
    times: int = 1


def dispatches(function: Callable[..., Any], inputs: Iterable[Any]) -> list[Dispatch]:
    """What `function` dispatches for `inputs`: numpy arrays where values are known, shapes
    elsewhere. A Python decision on a value that is not known raises jax's own error for it."""
    watch = _Watch()
    args = [jnp.asarray(a) if isinstance(a, np.ndarray) else watch.value(a) for a in inputs]
    with core.set_current_trace(watch):
        function(*args)
    return list(watch.found.values())


class _Value(core.Tracer):
    """A device array without data."""

    __slots__ = ("aval",)

    def __init__(self, trace: _Watch, aval: Any) -> None:
        self._trace = trace
        self.aval = aval

    def full_lower(self) -> _Value:
        return self


class _Watch(core.Trace):
    """Notes every program; evaluates those that need no data but whole numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[Any, Dispatch] = {}

    def value(self, shape: jax.ShapeDtypeStruct) -> _Value:
        return _Value(self, core.ShapedArray(shape.shape, shape.dtype))

    def process_primitive(self, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        applied = getattr(primitive.impl, "func", None) is dispatch.apply_primitive
        if applied or primitive.name in ("pjit", "jit"):
            return self._run(primitive, *args, **params)
        if primitive.name == "stop_gradient":
            return args[0]
        # Others run another program: a static slice runs a dynamic one.
        with mock.patch.object(dispatch, "apply_primitive", self._run):
            return primitive.impl(*args, **params)

    def _run(self, primitive: Any, *args: Any, **params: Any) -> Any:
        avals = [jax.typeof(a) for a in args]
        self._note(primitive, avals, params)
        made, _ = primitive.abstract_eval(*avals, **params)
        out = made if primitive.multiple_results else [made]
        known = not any(isinstance(a, _Value) for a in args)
        if known and sum(aval.size for aval in out) <= _LARGEST:
            with core.eval_context():
                return primitive.bind(*args, **params)
        values = [_Value(self, aval) for aval in out]
        return values if primitive.multiple_results else values[0]

    def _note(self, primitive: Any, avals: list[Any], params: dict[str, Any]) -> None:
        key = (primitive.name, *map(str, avals), str(params))
        if key in self.found:
            self.found[key].times += 1
            return
        shapes = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals]
        name = str(params.get("name", primitive.name))
        self.found[key] = Dispatch(name, functools.partial(primitive.bind, **params), shapes)
