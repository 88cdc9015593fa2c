"""The truth of a full-size check: what the reference's own types allow."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from pathlib import Path

import numpy as np

from maxkernel.api import load_task
from maxkernel.worker.spot import _full_size

TASK = """
import jax
import jax.numpy as jnp

TOLERANCE = {"atol": 1e-2, "rtol": 1e-2}


def reference(x, w, b):
    return jax.nn.softmax(jax.nn.gelu(x @ w + b), axis=1)


def inputs(key):
    return _make(key, 256)


def check_inputs(key):
    return _make(key, 16)


def _make(key, rows):
    one, two = jax.random.split(key)
    x = jax.random.normal(one, (rows, 512), jnp.bfloat16)
    w = jax.random.normal(two, (512, 512), jnp.bfloat16) * jnp.bfloat16(0.1)
    return x, w, jnp.ones(512, jnp.bfloat16)
"""


def test_the_reference_rounds_after_every_operator(tmp_path: Path) -> None:
    """As when its operators run one by one, whatever XLA leaves out of a program of this size."""
    (tmp_path / "task.py").write_text(TASK)
    task = _full_size(load_task(tmp_path / "task.py"))
    inputs = task.draw(3).arrays
    (one_by_one,) = [np.asarray(task.module.reference(*inputs))]
    outputs = [one_by_one]
    known = [np.ones(one_by_one.shape, np.bool_)]
    (found,) = task.truths(task.plan(known), inputs, outputs, known)
    assert np.array_equal(found.reference, one_by_one.ravel())
    assert not np.array_equal(found.oracle, found.reference)
