"""The first gate: tricks are named with their line, honest kernels pass."""

import ast
from pathlib import Path

import pytest

from maxkernel.judge.gate import check_gate

HONEST = '''
"""A kernel."""
from __future__ import annotations
import functools, math
from dataclasses import dataclass
import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
import jax.experimental.pallas.tpu as tpu2

@dataclass(frozen=True)
class Config:
    rows: int = 8

class Mask:
    def __init__(self, n):
        self.n = n

def _kernel(x_ref, o_ref, acc_ref, sem, *, scale):
    acc_ref[...] = x_ref[...].astype(jnp.float32) * scale
    pltpu.make_async_copy(acc_ref, o_ref.at[pl.ds(0, 8)], sem).start()
    o_ref[...] = lax.fori_loop(0, 4, lambda i, c: c + 1.0, acc_ref[...])

def kernel(x, *, rows=8):
    y = jax.nn.relu(x) + jnp.float32(math.pi)
    return pl.pallas_call(functools.partial(_kernel, scale=2.0),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(y)

if __name__ == "__main__":
    pass
'''


def test_an_honest_kernel_passes() -> None:
    assert check_gate(ast.parse(HONEST)) is None


@pytest.mark.parametrize("example", ["os", "sys", "numpy", "ctypes", "jax._src.core", "subprocess"])
def test_imports(example: str) -> None:
    failure = check_gate(ast.parse(f"x = 1\nimport {example}\n"))
    assert failure is not None
    assert failure.kind == "forbidden"
    assert failure.line == 2
    assert example in failure.message


@pytest.mark.parametrize(
    "line",
    [
        "from jax import config",
        "from jax.experimental import io_callback",
        "from jax.interpreters import mlir",
        "from jax.numpy import *",
        "from . import secrets",
        "import jax; jax.config.update('a', 1)",
        "import jax; jax.pure_callback(f, x)",
        "import jax; jax.debug.print('x')",
        "import jax; jax.jit = None",
        "import jax.numpy as jnp; jnp.dot = jnp.add",
        "import jax.numpy as jnp; jnp.load('/etc/passwd')",
        "import jax.experimental.pallas as pl; pl.pallas_call._f",
        "import functools; functools.partial.__class__",
        "import dataclasses; dataclasses.sys.modules",
        "import typing; typing.sys",
        "().__class__.__bases__",
        "open('/etc/passwd')",
        "getattr(x, 'y')",
        "eval('1')",
        "__import__('os')",
        "__builtins__['open']",
        "globals()['x']",
        "def __getattr__(n): ...",
        "async def f(): ...",
        "x.y = 1",
        "del x.y",
        "for x.y in (1,): pass",
    ],
)
def test_tricks(line: str) -> None:
    failure = check_gate(ast.parse(f"def kernel(x):\n    return x\n{line}\n"))
    assert failure is not None, line
    assert failure.line == 3
    assert failure.message.startswith("line 3: ")


def test_kernels_of_this_repository_pass() -> None:
    folder = Path(__file__).parents[2] / "src" / "maxkernel" / "suites" / "experts"
    for path in folder.glob("*.py") if folder.exists() else ():
        if "def kernel(" in path.read_text():
            assert check_gate(ast.parse(path.read_text())) is None, path
