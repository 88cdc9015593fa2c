"""What the matrix-product family emits equals the reference, at sizes that no block divides."""

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import assert_equal, draw, sources

SETTINGS = settings(max_examples=6, deadline=None, derandomize=True)
ROWS = st.sampled_from([8, 16, 127, 129, 600])
COLS = st.sampled_from([8, 127, 128, 129, 1000])
DEPTHS = st.sampled_from([7, 128, 129, 256, 384])
DTYPES = st.sampled_from(["float32", "bfloat16"])


def gemm_gelu(x, weight, bias):
    product = jnp.dot(x, weight, preferred_element_type=jnp.float32)
    return jax.nn.gelu(product + bias.astype(jnp.float32)).astype(x.dtype)


def transposed_weight(x, weight, bias):
    return jax.nn.relu(x @ weight.T + bias) * 2.0


def transposed_input(x, weight):
    return jax.nn.silu(x.T @ weight) - 1.0


def residual(x, weight, bias, row):
    t = x @ weight + bias
    return 0.5 * t + t + x * row[:, None]


def prologue(x, weight):
    return jax.nn.silu(x).astype(x.dtype) @ weight


def int8_product(x, weight, scale):
    acc = jax.lax.dot(x, weight, preferred_element_type=jnp.int32)
    return acc.astype(jnp.float32) * scale


def batched(x, weight):
    return jnp.einsum("bmk,bkn->bmn", x, weight) * 0.5


def three_dims(x, weight, bias):
    return jnp.tanh(jnp.einsum("bsd,de->bse", x, weight) + bias)


@SETTINGS
@given(ROWS, COLS, DEPTHS, DTYPES)
def test_gemm_gelu(m, n, k, dtype):
    specs = (((m, k), dtype), ((k, n), dtype), ((n,), dtype))
    for source in sources(gemm_gelu, *specs):
        assert_equal(gemm_gelu, source, draw(specs, m))


@SETTINGS
@given(ROWS, COLS, DEPTHS, DTYPES)
def test_weight_lies_transposed(m, n, k, dtype):
    specs = (((m, k), dtype), ((n, k), dtype), ((n,), dtype))
    for source in sources(transposed_weight, *specs):
        assert "nothing is transposed" in source
        assert_equal(transposed_weight, source, draw(specs, m))


@pytest.mark.parametrize(
    ("reference", "specs"),
    [
        (transposed_input, (((130, 72), "float32"), ((130, 200), "float32"))),
        (
            residual,
            (
                ((60, 256), "bfloat16"),
                ((256, 256), "bfloat16"),
                ((256,), "bfloat16"),
                ((60,), "bfloat16"),
            ),
        ),
        (prologue, (((60, 130), "float32"), ((130, 140), "float32"))),
        (int8_product, (((50, 256), "int8"), ((256, 129), "int8"), ((129,), "float32"))),
        (batched, (((3, 50, 64), "float32"), ((3, 64, 129), "float32"))),
        (three_dims, (((2, 50, 64), "bfloat16"), ((64, 129), "bfloat16"), ((129,), "bfloat16"))),
    ],
)
def test_more_products(reference, specs):
    for source in sources(reference, *specs):
        assert_equal(reference, source, draw(specs, 1))


def test_one_source_serves_other_sizes():
    full = (((4096, 8192), "bfloat16"), ((8192, 8192), "bfloat16"), ((8192,), "bfloat16"))
    check = (((520, 100), "bfloat16"), ((100, 650), "bfloat16"), ((650,), "bfloat16"))
    for source in sources(gemm_gelu, *full):
        assert_equal(gemm_gelu, source, draw(check, 0))
