"""Sums over outputs of a product are taken into the weights, and only where that is the same."""

import jax
import jax.numpy as jnp
import pytest
from emitted_style import assert_clean
from graphs import task_info
from kernels import assert_equal, draw, sources

from maxkernel.engineers.builtin.collapse import collapsed

RUN = 8


def pooled(x, w, b):
    t = (x @ w.T + b) * 0.5
    pools = jnp.mean(t.reshape(t.shape[0], -1, RUN), axis=-1)
    return jax.nn.logsumexp(pools, axis=1, keepdims=True)


def pooled_the_other_way(a, m, c):
    t = jnp.einsum("kn,mk->mn", m, a) - c[None]
    return jnp.max(jnp.tanh(jnp.sum(t.reshape(-1, t.shape[1] // RUN, RUN), axis=2)), axis=1)


def summed(x, w):
    return jnp.sum(x @ w.T / 2, axis=1, keepdims=True) * 1.5


def bent(x, w):
    """Something bends each output before the sum."""
    return jnp.sum(jax.nn.relu(x @ w.T), axis=1)


def weighted(x, w, b):
    """Outputs count differently."""
    return jnp.sum((x @ w.T) * b, axis=1)


def shapes(m, n, k, turned=False, bias=True):
    found = [(m, k), (k, n) if turned else (n, k), (n,)]
    return tuple((s, "float32") for s in found[: 3 if bias else 2])


CASES = [(pooled, False, True), (pooled_the_other_way, True, True), (summed, False, False)]


@pytest.mark.parametrize(("reference", "turned", "bias"), CASES)
def test_equals_the_reference_at_other_sizes(reference, turned, bias):
    found = sources(reference, *shapes(64, 4096, 256, turned, bias), only="left to XLA")
    assert found
    for source in found:
        assert_clean(source)
        other = shapes(50, 1024, 128, turned, bias)
        assert_equal(reference, source, draw(other, seed=1))


def test_the_product_has_a_column_per_run():
    info = collapsed(task_info(pooled, *shapes(64, 4096, 256)))
    assert info is not None
    (product,) = [n for n in info.graph.nodes if n.op == "dot_general"]
    assert info.graph.values[product.outputs[0]].shape == (64, 4096 // RUN)


def needed(x, w):
    """The outputs are needed themselves."""
    t = x @ w.T
    return jnp.sum(t, axis=1), jnp.max(t, axis=1)


@pytest.mark.parametrize("reference", [bent, weighted, needed])
def test_other_sums_stay(reference):
    bias = reference is weighted
    assert collapsed(task_info(reference, *shapes(64, 512, 256, bias=bias))) is None
