"""Test helper: the real TPU compiler, ahead of time."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from graphs import Spec
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding

from maxkernel.targets import get_target
from maxkernel.worker.exporting import on_target


@functools.cache
def _device(target: str) -> Any:
    return topologies.get_topology_desc(get_target(target).topology, "tpu").devices[0]


def compile_for(source: str, specs: tuple[Spec, ...], target: str, **tunables: Any) -> None:
    """Compiles a source's kernel; raises what the compiler raises."""
    scope: dict[str, Any] = {}
    exec(compile(source, "<emitted>", "exec"), scope)
    place = SingleDeviceSharding(_device(target))
    args = [jax.ShapeDtypeStruct(s, jnp.dtype(d), sharding=place) for s, d in specs]
    with on_target(get_target(target)):
        traced = jax.jit(lambda *a: scope["kernel"](*a, **tunables)).trace(*args)
        traced.lower(lowering_platforms=("tpu",)).compile()
