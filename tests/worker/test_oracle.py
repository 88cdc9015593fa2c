"""The oracle equals numpy in float64 on what references are made of."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from worker_samples import task_of

from maxkernel.worker import reference
from maxkernel.worker.oracle import promoted_function

BF16 = ml_dtypes.bfloat16


def oracle(function: Callable[..., Any], *inputs: Any, wide: str = "float64") -> list[np.ndarray]:
    jaxpr = jax.make_jaxpr(function)(*inputs)
    with jax.enable_x64(wide == "float64"):
        return [np.asarray(y) for y in jax.jit(promoted_function(jaxpr, wide))(*inputs)]


def draw(*shape: int, dtype: Any = BF16, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def softmax64(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


X, W = draw(16, 64), draw(64, 32, seed=1)
X64, W64 = X.astype(np.float64), W.astype(np.float64)

CASES: dict[str, tuple[Callable[..., Any], np.ndarray]] = {
    "bf16 product": (lambda x, w: x @ w, X64 @ W64),
    "declared accumulator": (
        lambda x, w: jnp.dot(x, w, preferred_element_type=jnp.bfloat16).astype(jnp.float32),
        X64 @ W64,
    ),
    "softmax in bf16": (lambda x, w: jax.nn.softmax(x, -1), softmax64(X64)),
    "rounding back and forth": (
        lambda x, w: (x.astype(jnp.float32) / 3).astype(jnp.bfloat16).astype(jnp.float32) * 3,
        X64,
    ),
    "reduce_precision": (lambda x, w: lax.reduce_precision(x / 7, 8, 7), X64 / 7),
    "scan": (
        lambda x, w: lax.scan(lambda c, row: (c + row, c), jnp.zeros(64, x.dtype), x)[0],
        X64.sum(0),
    ),
    "fori_loop": (
        lambda x, w: lax.fori_loop(0, 5, lambda i, v: v / 3 + i.astype(v.dtype), x),
        ((((X64 / 3) / 3 + 1) / 3 + 2) / 3 + 3) / 3 + 4,
    ),
    "while_loop": (
        lambda x, w: lax.while_loop(lambda v: jnp.max(v) < 1e4, lambda v: v * 3, jnp.abs(x)),
        np.abs(X64) * 3.0 ** np.ceil(np.log(1e4 / np.abs(X64).max()) / np.log(3)),
    ),
    "cond": (lambda x, w: lax.cond(x.shape[0] > 3, jnp.sin, jnp.cos, x), np.sin(X64)),
    "switch": (
        lambda x, w: lax.switch(jnp.int32(1), [jnp.sin, jnp.exp, jnp.cos], x),
        np.exp(X64),
    ),
    "cumsum": (lambda x, w: jnp.cumsum(x, -1), np.cumsum(X64, -1)),
    "gather": (lambda x, w: x[jnp.array([3, 1])] / 3, X64[[3, 1]] / 3),
    "scatter add": (
        lambda x, w: jnp.zeros((16, 64), x.dtype).at[jnp.array([0, 0])].add(x[:2] / 3),
        np.concatenate([X64[:1] / 3 + X64[1:2] / 3, np.zeros((15, 64))]),
    ),
    "maximum of windows": (
        lambda x, w: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2), (1, 2), "VALID") / 3,
        X64.reshape(16, 32, 2).max(-1) / 3,
    ),
    "remat and custom_jvp": (lambda x, w: jax.checkpoint(jax.nn.silu)(x), X64 / (1 + np.exp(-X64))),
    "variance": (lambda x, w: jnp.var(x.astype(jnp.float32), -1), X64.var(-1)),
    "sort": (lambda x, w: jnp.sort(x, -1) / 3, np.sort(X64, -1) / 3),
    "argmax stays an integer": (lambda x, w: jnp.argmax(x, -1), X64.argmax(-1)),
    "general reduce": (
        lambda x, w: lax.reduce(x, np.array(0, x.dtype), lambda a, b: a + b, (1,)),
        X64.sum(1),
    ),
    "array constant": (lambda x, w: x / W[:, 0], X64 / W64[:, 0]),
    "ragged product": (
        lambda x, w: lax.ragged_dot(x, jnp.stack([w, w * 2]), jnp.array([4, 12])),
        X64 @ W64 * np.where(np.arange(16) < 4, 1, 2)[:, None],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_numpy_in_float64(name: str) -> None:
    function, expected = CASES[name]
    (found,) = oracle(function, X, W)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)
    assert found.dtype == (np.float64 if found.dtype.kind == "f" else np.int32)


def test_convolution() -> None:
    x, k = draw(1, 6, 6, 4), draw(3, 3, 4, 8, seed=2)
    numbers = ("NHWC", "HWIO", "NHWC")
    (found,) = oracle(
        lambda a, b: lax.conv_general_dilated(a, b, (1, 1), "VALID", dimension_numbers=numbers),
        x,
        k,
    )
    a, b = x.astype(np.float64), k.astype(np.float64)
    expected = sum(a[:, i : i + 4, j : j + 4] @ b[i, j] for i in range(3) for j in range(3))
    np.testing.assert_allclose(found, expected, rtol=1e-11)


def test_float8_and_integer_quantisation_stay() -> None:
    def quantised(x: Any, w: Any) -> Any:
        small = (x * 8).astype(jnp.float8_e4m3fn)
        whole = jnp.round(x * 16).astype(jnp.int8)
        return small.astype(jnp.float32), whole.astype(jnp.float32)

    small, whole = oracle(quantised, X, W)
    np.testing.assert_array_equal(
        small, (X64 * 8).astype(ml_dtypes.float8_e4m3fn).astype(np.float64)
    )
    np.testing.assert_array_equal(whole, np.round(X64 * 16).astype(np.int8).astype(np.float64))
    assert not np.array_equal(small, X64 * 8)


def test_float8_product_is_accumulated_wide() -> None:
    def product(x: Any, w: Any) -> Any:
        a, b = x.astype(jnp.float8_e4m3fn), w.astype(jnp.float8_e4m3fn)
        return jnp.dot(a, b, preferred_element_type=jnp.float32)

    (found,) = oracle(product, X, W)
    a, b = (v.astype(ml_dtypes.float8_e4m3fn).astype(np.float64) for v in (X, W))
    np.testing.assert_allclose(found, a @ b, rtol=1e-12, atol=1e-12)


def test_bits_are_those_of_the_original_type() -> None:
    def bits(x: Any, w: Any) -> Any:
        return lax.bitcast_convert_type(x.astype(jnp.float32), jnp.int32)

    (found,) = oracle(bits, X, W)
    np.testing.assert_array_equal(found, X.astype(np.float32).view(np.int32))


def test_random_numbers_are_those_of_the_reference() -> None:
    def noisy(x: Any, w: Any) -> Any:
        return x.astype(jnp.float32) + jax.random.uniform(jax.random.key(3), x.shape)

    (found,) = oracle(noisy, X, W)
    np.testing.assert_allclose(found, np.asarray(noisy(X, W), np.float64), rtol=1e-6)


def test_levels_of_the_oracle(monkeypatch: pytest.MonkeyPatch) -> None:
    """float64 where it can be; float32 where that is too dear or a primitive forbids it."""
    product = task_of("""
        import jax.numpy as jnp
        def reference(x): return x @ x
        def inputs(key): return jnp.ones((64, 64), jnp.bfloat16)
    """)
    assert reference.prepare(product).precision == "float64"
    monkeypatch.setattr(reference, "FLOAT64_FLOPS_LIMIT", 2 * 64**3 - 1)
    solver = task_of("""
        import jax, jax.numpy as jnp
        def reference(x): return jax.scipy.sparse.linalg.cg(lambda v: 2 * v, x)[0]
        def inputs(key): return jnp.ones((64,))
    """)
    solved = reference.prepare(solver)
    assert solved.precision == "float32"
    np.testing.assert_allclose(solved.oracle(np.ones(64, np.float32))[0], 0.5, rtol=1e-6)
    dear = reference.prepare(product)
    assert dear.precision == "float32"
    assert dear.oracle(np.ones((64, 64), BF16))[0].dtype == np.float32


def test_float32_level_uses_no_small_types() -> None:
    (found,) = oracle(lambda x, w: jax.nn.softmax(x @ w, -1), X, W, wide="float32")
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, softmax64(X64 @ W64), rtol=2e-5)
