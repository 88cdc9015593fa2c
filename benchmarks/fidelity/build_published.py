"""Makes JaxBench's programs from its own sources, as they were when the times were published.

The sources are not part of this repository: `SOURCE` is a folder of them (README.md says which
commit). Their modules are executed here, as those of an installed package are.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
import types
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from benchmarks.fidelity.rows import Row

SOURCE: Path | None = None


def parts(row: Row):
    """What runs for a row: how often, the published function, its inputs (shapes, and values of
    integer inputs). A function that was timed without jit is many programs, each with its own."""
    assert SOURCE is not None
    module = load(SOURCE / "benchmark" / row.fields["workload"] / f"{row.fields['variant']}.py")
    make = module.create_inputs
    typed = "dtype" in inspect.signature(make).parameters
    inputs = inputs_of(lambda: make(dtype=jnp.bfloat16) if typed else make())
    if not getattr(module, "_skip_jit", False):
        return [(1, module.workload, inputs)]
    from benchmarks.fidelity import eager  # needs the jax of these sources

    return [(d.times, d.function, d.shapes) for d in eager.dispatches(module.workload, inputs)]


def load(path: Path) -> types.ModuleType:
    """A published module; dataclasses in it look themselves up by the module's name."""
    spec = importlib.util.spec_from_file_location(f"published.{path.parent.name}.{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def inputs_of(make):
    """Shapes of what is made, and the values of what is whole-numbered."""

    def arrays():
        made = make()
        return [jnp.asarray(a) for a in (made if isinstance(made, tuple | list) else (made,))]

    shapes = jax.eval_shape(arrays)
    integers = [i for i, a in enumerate(shapes) if np.issubdtype(a.dtype, np.integer)]
    values = jax.jit(lambda: [arrays()[i] for i in integers])()
    return [
        np.asarray(values[integers.index(i)]) if i in integers else shape
        for i, shape in enumerate(shapes)
    ]
