"""Tasks and candidates that the worker tests share."""

from __future__ import annotations

import textwrap

from maxkernel.tasks import task_from_text
from maxkernel.types import ArraySpec, Task
from maxkernel.types.messages import CaptureRequest

HEADER = """\
import functools
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
"""

RMSNORM_TASK = """\
import jax
import jax.numpy as jnp

TOLERANCE = {"atol": 2e-2, "rtol": 1e-2}

def reference(x, scale):
    wide = x.astype(jnp.float32)
    normal = wide * jax.lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-5)
    return (normal * scale.astype(jnp.float32)).astype(x.dtype)

def _make(key, rows, width):
    a, b = jax.random.split(key)
    return (
        jax.random.normal(a, (rows, width), jnp.bfloat16),
        1 + 0.1 * jax.random.normal(b, (width,), jnp.bfloat16),
    )

def inputs(key):
    return _make(key, 4096, 1024)

def check_inputs(key):
    return _make(key, 64, 256)
"""

RMSNORM_KERNEL = (
    HEADER
    + """
TUNABLES = {"rows": (32, 64)}

def body(x_ref, s_ref, o_ref):
    x = x_ref[...].astype(jnp.float32)
    y = x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5)
    o_ref[...] = (y * s_ref[...].astype(jnp.float32)).astype(o_ref.dtype)

def kernel(x, scale, rows=32):
    n, d = x.shape
    return pl.pallas_call(
        body,
        grid=(n // rows,),
        in_specs=[
            pl.BlockSpec((rows, d), lambda i: (i, 0)),
            pl.BlockSpec((1, d), lambda i: (0, 0)),
        ],
        out_specs=pl.BlockSpec((rows, d), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
    )(x, scale.reshape(1, d))
"""
)

ROWS = (ArraySpec((4096, 1024), "bfloat16"), ArraySpec((1024,), "bfloat16"))
CHECK_ROWS = (ArraySpec((64, 256), "bfloat16"), ArraySpec((256,), "bfloat16"))


def task_of(text: str, name: str = "sample") -> Task:
    """A task in our own format."""
    return task_from_text(name, "maxkernel", "sample.py", {"sample.py": textwrap.dedent(text)})


RMSNORM = task_of(RMSNORM_TASK, "rmsnorm")


def capture_of(source: str, **changes: object) -> CaptureRequest:
    """A request to capture `source` on the RMSNorm task's shapes."""
    fields: dict[str, object] = {
        "source": textwrap.dedent(source),
        "tunables": {},
        "target": "v6e",
        "inputs": ROWS,
        "check_inputs": CHECK_ROWS,
        "statics": {},
        "check_statics": {},
        "seconds": 30.0,
        "memory_bytes": 8 << 30,
    }
    return CaptureRequest(**(fields | changes))  # type: ignore[arg-type]


def rowwise(body: str, call: str = "", rows: int = 32) -> str:
    """A kernel over blocks of rows whose body is `body` (indented by hand)."""
    return (
        HEADER
        + f"""
def body(x_ref, o_ref):
{textwrap.indent(textwrap.dedent(body).strip(), "    ")}

def kernel(x, scale):
    n, d = x.shape
    return pl.pallas_call(
        body, grid=(n // {rows},),
        in_specs=[pl.BlockSpec(({rows}, d), lambda i: (i, 0))],
        out_specs=pl.BlockSpec(({rows}, d), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype){call},
    )(x)
"""
    )


def pointless(first: str, then: str = "return x") -> str:
    """A module that does `first` when it is imported."""
    return HEADER + textwrap.dedent(first) + f"\ndef kernel(x, scale):\n    {then}\n"
