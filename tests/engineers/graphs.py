"""Test helper: a reference as the engineers see it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from maxkernel.types import ArraySpec, TaskInfo, Tolerance
from maxkernel.worker.graph import graph_of

Spec = tuple[tuple[int, ...], str]


def task_info(reference: Callable[..., Any], *specs: Spec) -> TaskInfo:
    """What a trace worker says about `reference` for inputs of these shapes and dtypes."""
    args = [jax.ShapeDtypeStruct(shape, jnp.dtype(dtype)) for shape, dtype in specs]
    graph = graph_of(jax.make_jaxpr(reference)(*args))
    arrays = tuple(ArraySpec(shape, dtype) for shape, dtype in specs)
    outputs = tuple(ArraySpec(graph.values[o].shape, graph.values[o].dtype) for o in graph.outputs)
    return TaskInfo(
        task="test",
        input_names=tuple(inspect.signature(reference).parameters)[: len(specs)],
        inputs=arrays,
        outputs=outputs,
        check_inputs=arrays,
        check_outputs=outputs,
        statics={},
        check_statics={},
        tolerance=Tolerance(1e-2, 1e-2),
        graph=graph,
        flops=0.0,
        io_bytes=0.0,
        reference_tpu=b"",
    )
