"""Run files for pairing tests, and a scripted engine where no compiler is needed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec

from maxkernel.modes.pair.acts import KIND, Act, Joined
from maxkernel.store import RunFile, RunHeader
from maxkernel.tasks import load_task
from maxkernel.types import Budget, Design, Plan

TINY = '''"""Rows scaled to unit mean square: small, so that a whole evaluation takes seconds."""

import jax
import jax.numpy as jnp

TOLERANCE = {"atol": 1e-2, "rtol": 1e-2}


def reference(x, w):
    y = x.astype(jnp.float32)
    y = y * jax.lax.rsqrt(jnp.mean(y * y, axis=-1, keepdims=True) + 1e-6)
    return (y * w.astype(jnp.float32)).astype(x.dtype)


def inputs(key):
    return _draw(key, 2048)


def check_inputs(key):
    return _draw(key, 64)


def _draw(key, rows):
    a, b = jax.random.split(key)
    x = jax.random.normal(a, (rows, 1024), jnp.float32).astype(jnp.bfloat16)
    return x, jax.random.normal(b, (1024,), jnp.float32).astype(jnp.bfloat16)
'''

SOURCE = "TUNABLES = {}\n\n\ndef kernel(x, w):\n    return x\n"
PLAN = Plan("rowwise", "one pass", "each row is read once")


def tiny_task(folder: Path) -> Path:
    """The file of the small task."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "tiny_rms.py"
    path.write_text(TINY)
    return path


def new_run(folder: Path, budget: Budget | None = None) -> Path:
    """The folder of a run that no engine has touched."""
    task = load_task(tiny_task(folder / "task"))
    header = RunHeader("tiny", task, "v6e", "pair", budget or Budget(candidates=8), {}, time.time())
    RunFile.create(folder / "run", header).close()
    return folder / "run"


class Script:
    """Writes what an engine would write, one act at a time."""

    def __init__(self, folder: Path) -> None:
        self.run = RunFile.resume(folder)
        self.write(Joined())

    def write(self, act: Act) -> None:
        """Appends an act of the engine."""
        body: Any = msgspec.to_builtins(msgspec.structs.replace(act, by="engine"))
        self.run.event(KIND, **body)

    def design(self, number: int, source: str = SOURCE, parents: tuple[int, ...] = ()) -> None:
        """Stores a design."""
        self.run.add_design(Design(number, PLAN, source, "plan", parents))
