"""Helpers of the suite tests: import a task from its text, draw its inputs, measure errors."""

import functools
import os
import types

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np

from maxkernel import suites


@functools.cache
def module(suite, name, edition="hardened"):
    """A task's module. It is our own data, so the test process may run it."""
    task = suites.load(suite, name, edition)
    made = types.ModuleType(task.name)
    exec(compile(task.files[task.entry], task.entry, "exec"), made.__dict__)
    return made


def draw(maker, seed=0):
    """Inputs of a seed."""
    return _compiled(maker)(jax.random.key(seed))


@functools.cache
def _compiled(maker):
    """Unoptimised: compiling the random draws is most of the cost."""
    return jax.jit(maker, compiler_options={"xla_backend_optimization_level": "0"})


def wide(arrays):
    """The same values in float32, so that results can be compared closely with float64."""
    return [a.astype(jnp.float32) if jnp.issubdtype(a.dtype, jnp.floating) else a for a in arrays]


def as_numpy(arrays):
    """float64 for floats, integers as they are."""
    made = [np.asarray(a) for a in arrays]
    return [a.astype(np.float64) if a.dtype.kind == "f" else a for a in made]


def specs(tree):
    """`bfloat16[4,8]` for every array of a tuple or a single array."""
    return [
        f"{leaf.dtype.name}[{','.join(map(str, leaf.shape))}]" for leaf in jax.tree.leaves(tree)
    ]


def centred_error(values, oracle):
    """RMS error over the oracle's RMS around its mean."""
    values, oracle = np.asarray(values, np.float64), np.asarray(oracle, np.float64)
    assert values.shape == oracle.shape
    spread = np.sqrt(np.mean((oracle - oracle.mean()) ** 2))
    return np.sqrt(np.mean((values - oracle) ** 2)) / spread
