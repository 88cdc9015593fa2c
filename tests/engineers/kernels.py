"""Test helper: runs emitted sources on the CPU, with every Pallas call interpreted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from graphs import Spec, task_info
from jax.experimental import pallas as pl

from maxkernel.engineers.team import Team
from maxkernel.targets import get_target
from maxkernel.types import Graph, TaskInfo, Tolerance

TEAM = Team.builtin()
NO_TASK = TaskInfo(
    "t", (), (), (), (), (), {}, {}, Tolerance(0, 0), Graph((), (), (), ()), 0.0, 0.0, b""
)
"""Of moves that need nothing of the task."""


def load(source: str) -> Callable[..., Any]:
    """The `kernel` of a source, its Pallas calls interpreted."""
    original = pl.pallas_call

    def interpreted(*args: Any, **kwargs: Any) -> Any:
        return original(*args, **kwargs, interpret=True)

    scope: dict[str, Any] = {}
    exec(compile(source, "<emitted>", "exec"), scope)
    kernel = scope["kernel"]

    def run(*args: Any, **tunables: Any) -> Any:
        pl.pallas_call = interpreted
        try:
            return jax.jit(lambda *a: kernel(*a, **tunables))(*args)
        finally:
            pl.pallas_call = original

    return run


def sources(
    reference: Callable[..., Any], *specs: Spec, target: str = "v6e", only: str = ""
) -> list[str]:
    """What the built-in team writes for a reference: one source per plan."""
    info, chip = task_info(reference, *specs), get_target(target)
    plans = [p for p in TEAM.planner.plan(info, chip, ()) if only in p.strategy]
    assert plans, "no plan"
    return [TEAM.implementer.implement(info, plan, chip) for plan in plans]


def draw(specs: tuple[Spec, ...], seed: int, high: int = 100) -> tuple[jax.Array, ...]:
    """Normal floats, integers below `high`, fair coins."""
    rng = np.random.default_rng(seed)

    def one(shape: tuple[int, ...], dtype: str) -> jax.Array:
        if dtype == "bool":
            return jnp.asarray(rng.random(shape) < 0.5)
        if dtype.startswith("int"):
            return jnp.asarray(rng.integers(0, high, shape), dtype)
        return jnp.asarray(rng.standard_normal(shape), dtype)

    return tuple(one(shape, dtype) for shape, dtype in specs)


def assert_equal(
    reference: Callable[..., Any],
    source: str,
    inputs: tuple[jax.Array, ...],
    tolerance: float = 2e-2,
    **tunables: Any,
) -> None:
    """The kernel equals the reference evaluated in float32 on the same values, within
    `tolerance` of the result's own size."""
    promoted = tuple(x.astype(jnp.float32) if x.dtype == jnp.bfloat16 else x for x in inputs)
    oracle = jax.tree.leaves(jax.jit(reference)(*promoted))
    plain = jax.tree.leaves(jax.eval_shape(reference, *inputs))
    results = jax.tree.leaves(load(source)(*inputs, **tunables))
    assert len(results) == len(oracle)
    for found, wanted, spec in zip(results, oracle, plain, strict=True):
        assert (found.shape, found.dtype) == (spec.shape, spec.dtype)
        a, b = np.asarray(found, np.float64), np.asarray(wanted, np.float64)
        assert np.isfinite(a).all() == np.isfinite(b).all()
        scale = max(float(np.sqrt(np.mean(b * b))), 1e-3)
        assert float(np.max(np.abs(a - b) / (scale + np.abs(b)))) <= tolerance
