"""Makes JaxBench's XLA baselines again, from the task files of this repository (jax 0.9.2)."""

from __future__ import annotations

import types
from pathlib import Path

import jax
import numpy as np
from benchmarks.fidelity import handwritten
from benchmarks.fidelity.rows import Row

TASKS = Path(__file__).parents[2] / "src" / "maxkernel" / "suites" / "jaxbench" / "tasks"


def build(row: Row):
    """The function and its inputs: shapes, and values of integer inputs."""
    if row.other:
        raise ValueError(f"only the published source makes this program: {row.other}")
    number = row.fields["workload"].split("_")[0]
    if row.fields["variant"] == "optimized":
        return handwritten.build(number)
    task = load(number)
    return function_and_inputs(task.reference, task.inputs)


def load(number: str) -> types.ModuleType:
    """The task file, in the edition whose times were published: bf16, original inputs."""
    path = next(TASKS.glob(f"t{int(number[:-1]):02d}{number[-1]}_*.py"))
    source = path.read_text().replace('EDITION = "hardened"', 'EDITION = "published"', 1)
    module = types.ModuleType(path.stem)
    exec(compile(source, str(path), "exec"), module.__dict__)
    return module


def function_and_inputs(reference, make):
    """Python numbers among the inputs become constants; integer arrays keep their values."""
    key = jax.random.key(42)
    numbers: dict[int, object] = {}

    def arrays(key):
        made = make(key)
        made = made if isinstance(made, tuple) else (made,)
        numbers.update({i: a for i, a in enumerate(made) if isinstance(a, bool | int | float)})
        return [a for a in made if not isinstance(a, bool | int | float)]

    shapes = jax.eval_shape(arrays, key)
    integers = [i for i, a in enumerate(shapes) if np.issubdtype(a.dtype, np.integer)]
    values = jax.jit(lambda key: [arrays(key)[i] for i in integers])(key)
    inputs = [
        np.asarray(values[integers.index(i)]) if i in integers else shape
        for i, shape in enumerate(shapes)
    ]

    def call(*given):
        rest = list(given)
        full = [numbers[i] if i in numbers else rest.pop(0)
                for i in range(len(numbers) + len(given))]  # fmt: skip
        return reference(*full)

    return call, inputs
