"""Boxes of results computed from parts of the inputs are those of the whole."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maxkernel.worker.graph import graph_of
from maxkernel.worker.parts import Flat, part_function
from maxkernel.worker.spot_truth import boxes_of, cost_of, sizes_of
from maxkernel.worker.work import flops

A = jnp.asarray(np.random.default_rng(0).standard_normal((24, 16)), jnp.float32)
B = jnp.asarray(np.random.default_rng(1).standard_normal((16, 32)), jnp.float32)
C = jnp.asarray(np.random.default_rng(2).standard_normal((4, 6, 8, 8)), jnp.float32)
K = jnp.asarray(np.random.default_rng(3).standard_normal((5, 6, 3, 3)), jnp.float32)


def softmax_of_product(a: Any, b: Any) -> Any:
    return jax.nn.softmax(jax.nn.gelu(a @ b + jnp.sum(b, 0)), axis=1)


def convolution(c: Any, k: Any) -> Any:
    return jax.nn.relu(jax.lax.conv(c, k, (1, 1), "SAME"))


def pooled(c: Any, k: Any) -> Any:
    window = (1, 1, 2, 2)
    return jax.lax.reduce_window(convolution(c, k), -jnp.inf, jax.lax.max, window, window, "VALID")


def batched(a: Any, b: Any) -> Any:
    right = b.reshape(4, 4, 32)[:, :1].repeat(16, 1)
    return jnp.einsum("bij,bjk->bik", a.reshape(4, 6, 16), right)


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], tuple[slice, ...], bool]] = {
    "product": (lambda a, b: a @ b, (A, B), np.s_[5:9, 8:24], True),
    "softmax": (softmax_of_product, (A, B), np.s_[5:9, 0:32], True),
    "part of a row": (softmax_of_product, (A, B), np.s_[5:9, 8:24], True),
    "transposed": (lambda a, b: (b.T @ a.T).T, (A, B), np.s_[3:4, 31:32], True),
    "batched": (batched, (A, B), np.s_[1:2, 2:6, 4:8], True),
    "split": (
        lambda a, b: (a @ b).reshape(4, 6, 32)[:, :, None],
        (A, B), np.s_[1:3, 0:6, 0:1, :8], True,
    ),
    "split part": (lambda a, b: (a @ b).reshape(4, 6, 32), (A, B), np.s_[1:3, 2:4, :8], True),
    "merged": (lambda a, b: (a @ b).reshape(12, 64), (A, B), np.s_[3:5, 2:9], False),
    "cut and joined": (
        lambda a, b: jnp.concatenate([a[2:20] @ b, jnp.pad(a @ b, ((1, 0), (0, 0)))])[::-1],
        (A, B), np.s_[7:11, 8:16], False,
    ),
    "sums": (
        lambda a, b: jnp.cumsum(a @ b, 0) + jnp.max(a, 1)[:, None],
        (A, B), np.s_[5:9, 8:24], True,
    ),
    "sorted": (lambda a, b: jnp.sort(a @ b, axis=-1), (A, B), np.s_[5:9, 8:24], True),
    "convolution": (convolution, (C, K), np.s_[1:3, 2:4, 1:5, 0:8], True),
    "pooled": (pooled, (C, K), np.s_[1:3, 2:4, 1:3, 0:4], True),
    "scanned": (
        lambda a, b: jax.lax.scan(lambda c, x: (c + x, c * x), jnp.zeros(32), a @ b)[1],
        (A, B), np.s_[5:9, 8:24], False,
    ),
    "several": (lambda a, b: jax.lax.top_k(a @ b, 4)[1] + 1, (A, B), np.s_[5:9, 0:2], False),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_box_is_that_of_the_whole(name: str) -> None:
    function, inputs, box, cheaper = CASES[name]
    jaxpr = jax.make_jaxpr(function)(*inputs)
    truth = np.asarray(function(*inputs))
    starts = [np.int32(s.indices(n)[0]) for s, n in zip(box, truth.shape, strict=True)]
    run = part_function(Flat(jaxpr, {}), {0: truth[box].shape})
    (found,) = jax.jit(run)(starts, list(inputs))
    np.testing.assert_allclose(found, truth[box], rtol=1e-5, atol=1e-5)
    part = graph_of(jax.make_jaxpr(run)(starts, list(inputs)))
    if cheaper and flops(graph_of(jaxpr)):
        assert flops(part) < flops(graph_of(jaxpr))


def test_one_compilation_serves_all_boxes_of_a_size() -> None:
    truth = np.asarray(softmax_of_product(A, B))
    run = jax.jit(part_function(Flat(jax.make_jaxpr(softmax_of_product)(A, B), {}), {0: (4, 32)}))
    for row in (0, 7, 20):
        (found,) = run([np.int32(row), np.int32(0)], [A, B])
        np.testing.assert_allclose(found, truth[row : row + 4], rtol=1e-5, atol=1e-6)
    assert run._cache_size() == 1  # pyright: ignore


def test_boxes_hold_what_is_set_and_nothing_else() -> None:
    mask = np.zeros((12, 10, 3), np.bool_)
    mask[2:5, 4:6], mask[2:5, 8:9], mask[7:8, 0:4, 1:2] = True, True, True
    boxes = boxes_of(mask)
    assert sorted(sizes_of(box) for box in boxes) == [(1, 4, 1), (3, 1, 3), (3, 2, 3)]
    again = np.zeros_like(mask)
    for box in boxes:
        assert not again[box].any()
        again[box] = True
    np.testing.assert_array_equal(again, mask)
    assert boxes_of(np.ones((2, 3), np.bool_)) == [(slice(0, 2), slice(0, 3))]
    assert boxes_of(np.zeros((2, 3), np.bool_)) == []


def test_costs_count_products_and_elements() -> None:
    cost = cost_of(jax.make_jaxpr(lambda a, b: a @ b)(A, B))
    assert cost.flops == 2 * 24 * 16 * 32
    assert cost.operations == cost.flops + A.size + B.size + 24 * 32
