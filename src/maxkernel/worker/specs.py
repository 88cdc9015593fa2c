"""Shapes and dtypes: between jax's and ours, and what a TPU program can take."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from maxkernel.types.task import ArraySpec

DTYPES = frozenset(
    "bool int4 int8 int16 int32 uint4 uint8 uint16 uint32 float16 bfloat16 float32 "
    "float8_e4m3fn float8_e5m2 float8_e4m3b11fnuz float8_e4m3fnuz float8_e5m2fnuz "
    "float8_e4m3 float8_e3m4 float8_e8m0fnu float4_e2m1fn".split()
)
"""Dtypes that the inputs and outputs of a TPU program may have."""


def spec_of(value: Any) -> ArraySpec:
    """The spec of anything with a shape and a dtype."""
    return ArraySpec(tuple(int(n) for n in value.shape), str(np.dtype(value.dtype).name))


def struct_of(spec: ArraySpec) -> jax.ShapeDtypeStruct:
    """jax's abstract array for a spec."""
    return jax.ShapeDtypeStruct(spec.shape, jnp.dtype(spec.dtype))


def nbytes(spec: ArraySpec) -> float:
    """Bytes of the array in HBM; 4-bit types are packed."""
    width = 0.5 if spec.dtype.startswith(("int4", "uint4", "float4")) else None
    return spec.size * (jnp.dtype(spec.dtype).itemsize if width is None else width)


def unusable(value: Any) -> str:
    """Why an array cannot be an input or output of a TPU program; empty when it can."""
    try:
        name = np.dtype(value.dtype).name
    except TypeError:
        return f"has dtype {value.dtype}, which is no plain number type"
    if name in ("complex64", "complex128"):
        return f"is {name}: TPU kernels have no complex numbers"
    if name in ("float64", "int64", "uint64"):
        return f"is {name}: a TPU has no 64-bit arrays"
    if name not in DTYPES:
        return f"has dtype {name}, which a TPU program does not take"
    if 0 in value.shape:
        return f"has shape {tuple(value.shape)}: it holds no elements"
    return ""
