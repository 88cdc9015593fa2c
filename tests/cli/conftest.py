"""A command line in its own folder, cache and config, and a task judged in seconds."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parent.parent / "llm"))  # a scripted model server

TASK = '''"""Row-wise root mean square norm, small."""

import jax
import jax.numpy as jnp

TOLERANCE = {"atol": 1e-2, "rtol": 1e-2}


def reference(x, scale):
    y = x.astype(jnp.float32)
    y = y * jax.lax.rsqrt(jnp.mean(y * y, axis=-1, keepdims=True) + 1e-5)
    return (y * scale).astype(x.dtype)


def inputs(key):
    return _make(key, 16384)


def check_inputs(key):
    return _make(key, 100)


def _make(key, rows):
    k1, k2 = jax.random.split(key)
    x = jax.random.normal(k1, (rows, 1024)).astype(jnp.bfloat16)
    return x, 1 + 0.1 * jax.random.normal(k2, (1024,))
'''

KERNEL = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

TUNABLES = {"block_rows": (256, 512)}


def body(x_ref, scale_ref, out_ref):
    x = x_ref[...].astype(jnp.float32)
    y = x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-5)
    out_ref[...] = (y * scale_ref[...]).astype(out_ref.dtype)


def kernel(x, scale, *, block_rows=256):
    rows, cols = x.shape
    return pl.pallas_call(
        body,
        grid=(pl.cdiv(rows, block_rows),),
        in_specs=[
            pl.BlockSpec((block_rows, cols), lambda i: (i, 0)),
            pl.BlockSpec((1, cols), lambda i: (0, 0)),
        ],
        out_specs=pl.BlockSpec((block_rows, cols), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
    )(x, scale.reshape(1, cols))
"""


@dataclass
class CommandLine:
    """Runs `maxkernel` as a user would."""

    folder: Path
    environment: dict[str, str]
    prefix: tuple[str, ...] = ()
    """Put before every command."""

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self.prefix, str(Path(sys.executable).with_name("maxkernel")), *arguments],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, timeout: float = 120) -> tuple[int, str, str]:
        """Exit status, standard output, standard error."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=timeout)
        return process.returncode, out, err

    def json(self, *arguments: str) -> tuple[int, dict[str, Any]]:
        """Exit status and the JSON document that --json prints."""
        status, out, err = self.run(*arguments, "--json")
        assert out.strip(), err
        return status, json.loads(out)

    def write(self, name: str, text: str) -> str:
        (self.folder / name).write_text(text)
        return name


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def new_cli(shared_cache: Path) -> Callable[[Path], CommandLine]:
    """Makes a command line in an empty folder."""

    def make(folder: Path) -> CommandLine:
        environment = os.environ | {
            "MAXKERNEL_CACHE_DIR": str(shared_cache),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "COLUMNS": "200",
            "NO_COLOR": "1",
        }
        made = CommandLine(folder, environment)
        made.write("norm.py", TASK)
        made.write("kernel.py", KERNEL)
        return made

    return make


@pytest.fixture
def cli(tmp_path: Path, new_cli: Callable[[Path], CommandLine]) -> CommandLine:
    return new_cli(tmp_path)


@pytest.fixture
def edited_kernel(cli: CommandLine) -> Callable[[str, str], str]:
    """Writes the kernel with one piece of text replaced; returns the file's name."""

    def write(old: str, new: str) -> str:
        assert old in KERNEL
        return cli.write("edited.py", KERNEL.replace(old, new))

    return write
