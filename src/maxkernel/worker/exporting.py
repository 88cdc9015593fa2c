"""Tracing and exporting for a TPU that is not there."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateUsage=false, reportMissingTypeStubs=false

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
from jax._src.mesh import AbstractDevice, AbstractMesh, use_abstract_mesh
from jax.sharding import SingleDeviceSharding

from maxkernel.targets import Target


def on_target(target: Target) -> AbstractContextManager[Any]:
    """A context in which kernels that ask for the TPU's generation are told `target`."""
    device = AbstractDevice(target.device_kind, target.cores, "tpu")
    return use_abstract_mesh(AbstractMesh((), (), abstract_device=device))


def export_program(
    function: Callable[..., Any], inputs: Sequence[jax.ShapeDtypeStruct], target: Target
) -> bytes:
    """`function` at these shapes as a serialised jax.export program for the TPU."""
    with on_target(target):
        exported = jax.export.export(jax.jit(function), platforms=["tpu"])(*inputs)
        return bytes(exported.serialize())


def structs_on(
    exported: jax.export.Exported, sharding: SingleDeviceSharding
) -> list[jax.ShapeDtypeStruct]:
    """The inputs of an exported program as they lie on one device."""
    return [
        jax.ShapeDtypeStruct(aval.shape, aval.dtype, sharding=sharding)
        for aval in exported.in_avals
    ]


@functools.cache
def compile_options() -> dict[str, Any]:
    """CPU compiler options that shorten the compile of references and oracles, where they exist."""
    options: dict[str, Any] = {"xla_cpu_use_fusion_emitters": False}
    try:
        jax.jit(jnp.sin).lower(jnp.zeros(())).compile(options)
    except Exception:
        return {}
    return options


def rounding_options() -> dict[str, Any]:
    """Those options, and every operator rounds to its own type, as when run one by one: XLA leaves
    out roundings of bfloat16 between operators in large programs, and keeps them in small ones."""
    return {**compile_options(), "xla_allow_excess_precision": False}


def evaluate(jaxpr: Any, consts: Sequence[Any]) -> Callable[..., list[Any]]:
    """The function that a jaxpr stands for."""
    from jax._src import core

    def run(*arrays: Any) -> list[Any]:
        return core.eval_jaxpr(jaxpr, consts, *arrays)

    return run
