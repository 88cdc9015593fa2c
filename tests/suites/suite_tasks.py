"""Helpers of the suite tests: import a task from its text, draw its inputs, measure errors."""

import functools
import os
import types

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np

from maxkernel import suites

FAST_COMPILE = {"xla_backend_optimization_level": "0"}
"""Unoptimised programs: at check size compiling costs more than running."""


@functools.cache
def module(suite, name, edition="hardened"):
    """A task's module. It is our own data, so the test process may run it."""
    task = suites.load(suite, name, edition)
    made = types.ModuleType(task.name)
    exec(compile(task.files[task.entry], task.entry, "exec"), made.__dict__)
    return made


def draw(maker, seed=0):
    """Inputs of a seed, Python scalars in their places."""
    return _compiled(maker)(jax.random.key(seed))


def shapes(maker):
    """Abstract inputs, Python scalars in their places."""
    statics = {}
    arrays = jax.eval_shape(_arrays_only(maker, statics), jax.random.key(0))
    return _insert(arrays, statics)


def output_shapes(function, inputs):
    """Abstract results; Python scalars among the inputs stay constants."""
    statics = {i: value for i, value in enumerate(inputs) if isinstance(value, int)}
    arrays = [value for value in inputs if not isinstance(value, int)]
    return jax.eval_shape(lambda *values: function(*_insert(values, statics)), *arrays)


def run(function, inputs):
    """The compiled function's results as a tuple."""
    static = tuple(i for i, value in enumerate(inputs) if isinstance(value, int))
    compiled = jax.jit(function, static_argnums=static, compiler_options=FAST_COMPILE)
    return tuple(jax.tree.leaves(compiled(*inputs)))


@functools.cache
def _compiled(maker):
    statics = {}
    arrays = _arrays_only(maker, statics)
    fast = jax.jit(arrays, compiler_options=FAST_COMPILE)
    return lambda key: _insert(fast(key), statics)


def _arrays_only(maker, statics):
    """`maker` less its Python scalars, which tracing it leaves in `statics` by position."""

    def arrays(key):
        made = maker(key)
        statics.update((i, value) for i, value in enumerate(made) if isinstance(value, int))
        return [value for value in made if not isinstance(value, int)]

    return arrays


def _insert(arrays, statics):
    rest = iter(arrays)
    total = len(arrays) + len(statics)
    return [statics[i] if i in statics else next(rest) for i in range(total)]


def wide(values):
    """The same values in float32, so that results can be compared closely with float64."""
    return [v.astype(jnp.float32) if is_float(v) else v for v in values]


def as_numpy(values):
    """float64 for floats, integers as they are."""
    return [np.asarray(v).astype(np.float64) if is_float(v) else np.asarray(v) for v in values]


def is_float(value):
    return not isinstance(value, int) and jnp.issubdtype(value.dtype, jnp.floating)


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
