"""Two executions of one source: jax's interpret mode, and the interpreter of the TPU artifact."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.export
import jax.extend
import numpy as np
from jax._src import core
from jax._src.mesh import AbstractDevice, AbstractMesh

from maxkernel.worker import mosaic

CHIP = AbstractMesh((), (), abstract_device=AbstractDevice("TPU v6 lite", 1, "tpu"))


def export(function: Callable[..., Any], arrays: Sequence[Any]) -> bytes:
    """The function's artifact for a v6e."""
    with jax.sharding.use_abstract_mesh(CHIP):
        return jax.export.export(jax.jit(function), platforms=["tpu"])(*arrays).serialize()


def interpret(function: Callable[..., Any], arrays: Sequence[Any]) -> list[np.ndarray]:
    """The function's results with every Pallas call interpreted by jax."""
    with jax.sharding.use_abstract_mesh(CHIP):
        closed = jax.make_jaxpr(function)(*arrays)
    rewritten = _interpreted(closed.jaxpr)
    run = jax.jit(lambda *xs: jax.core.eval_jaxpr(rewritten, closed.consts, *xs))
    return [np.asarray(x) for x in run(*jax.tree.leaves(list(arrays)))]


def _interpreted(jaxpr: Any) -> Any:
    def param(value: Any) -> Any:
        if isinstance(value, core.ClosedJaxpr):
            return value.replace(jaxpr=_interpreted(value.jaxpr))
        if isinstance(value, tuple) and value and isinstance(value[0], core.ClosedJaxpr):
            return tuple(param(v) for v in value)
        return value

    equations = []
    for eqn in jaxpr.eqns:
        params = {k: param(v) for k, v in eqn.params.items()}
        if eqn.primitive.name == "pallas_call":
            params["interpret"] = True
        equations.append(eqn.replace(params=params))
    return jaxpr.replace(eqns=equations)


def normal(*shape: int, dtype: Any = np.float32, seed: int = 0) -> np.ndarray:
    """Normal values of a dtype."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def integers(*shape: int, dtype: Any = np.int32, low: int = -9, high: int = 9) -> np.ndarray:
    """Small integers of a dtype."""
    return np.asarray(np.random.default_rng(1).integers(low, high, shape)).astype(dtype)


def execute(function: Callable[..., Any], *arrays: Any, **options: Any) -> list[np.ndarray]:
    """The results of the function's artifact under the interpreter."""
    return mosaic.run(mosaic.load(export(function, arrays)), arrays, mosaic.Options(**options))
